package leftovers

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// parameterBatch is how many parameters one call may delete.
const parameterBatch = 10

// RemoveParameters deletes the parameters through which the nodes of a kubeadm
// cluster talk, those that they made themselves among them. It is for after
// Terraform's destroy, when no node is left to write another one.
func (r *Remover) RemoveParameters(ctx context.Context, report func(string)) error {
	var names []string
	// Without decryption: nobody needs the values any more.
	pages := ssm.NewGetParametersByPathPaginator(r.ssm, &ssm.GetParametersByPathInput{
		Path: aws.String("/kubeopera/" + r.scope.Environment + "/"), Recursive: aws.Bool(true),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list parameters: %w", err)
		}
		for _, p := range page.Parameters {
			names = append(names, aws.ToString(p.Name))
		}
	}
	for batch := range slices.Chunk(names, parameterBatch) {
		// Names that are gone already are no error.
		if _, err := r.ssm.DeleteParameters(ctx, &ssm.DeleteParametersInput{Names: batch}); err != nil {
			return fmt.Errorf("delete parameters: %w", err)
		}
	}
	if len(names) > 0 {
		report(fmt.Sprintf("removed %d parameters that the nodes wrote", len(names)))
	}
	return nil
}
