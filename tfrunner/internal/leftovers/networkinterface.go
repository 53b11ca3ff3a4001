package leftovers

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// networkInterfaces removes interfaces that a machine's network plugin made and
// nothing uses any more. Those in use go with their machines.
func (p *pass) networkInterfaces(ctx context.Context) error {
	pages := ec2.NewDescribeNetworkInterfacesPaginator(p.ec2, &ec2.DescribeNetworkInterfacesInput{
		Filters: []types.Filter{filter("vpc-id", p.vpcs...)},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list network interfaces: %w", err)
		}
		for _, i := range page.NetworkInterfaces {
			if i.Status != types.NetworkInterfaceStatusAvailable || !p.scope.isLeftover(ec2Tags(i.TagSet)) {
				continue
			}
			p.remove(KindNetworkInterface, aws.ToString(i.NetworkInterfaceId), func() error {
				_, err := p.ec2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: i.NetworkInterfaceId})
				return err
			})
		}
	}
	return nil
}
