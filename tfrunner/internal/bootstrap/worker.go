package bootstrap

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/kubeopera/platform/shared/api"
)

// workerPages bounds the requests for what workers report, ten in each. Control
// planes' reports are in the same place.
const workerPages = 12

const workerPrefix = "worker-"

// readWorkers makes nodes of what workers report, by the full names of their
// parameters, in the order of their names. Terraform does not know the workers, so
// who has not reported is not there; and who reported last before Layout.Since may
// be long gone.
func readWorkers(l Layout, values map[string]string) []Node {
	var workers []Node
	for parameter, value := range values {
		name, ok := strings.CutPrefix(parameter, l.name(nameStatus))
		id, isWorker := strings.CutPrefix(name, workerPrefix)
		status := parseStatus(value).of(id)
		if !ok || !isWorker || instance(id) == "" || status.state == "" || status.at.Before(l.Since) {
			continue
		}
		n := read(name, report{}, status)
		n.Instance = id
		if status.state == statusDone { // a worker reports its end only once it is a member
			n.State, n.Message = api.NodeJoined, "joined"
		}
		workers = append(workers, n)
	}
	slices.SortFunc(workers, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return workers
}

// workers reads what workers report now.
func (w Watch) workers(ctx context.Context) ([]Node, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	values := map[string]string{}
	in := &ssm.GetParametersByPathInput{
		Path: aws.String(strings.TrimSuffix(w.Layout.name(nameStatus), "/")), MaxResults: aws.Int32(batch), WithDecryption: aws.Bool(true),
	}
	for range workerPages {
		out, err := w.Parameters.GetParametersByPath(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("read what the workers report: %w", refusal(err))
		}
		for _, p := range out.Parameters {
			values[aws.ToString(p.Name)] = aws.ToString(p.Value)
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	return readWorkers(w.Layout, values), nil
}
