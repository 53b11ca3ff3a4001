package leftovers

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// volumes removes the volumes of a cluster whose VPC is gone.
func (p *pass) volumes(ctx context.Context) error {
	var owned []types.Volume
	pages := ec2.NewDescribeVolumesPaginator(p.ec2, &ec2.DescribeVolumesInput{Filters: []types.Filter{p.ownedFilter()}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list volumes: %w", err)
		}
		for _, v := range page.Volumes {
			if p.isRemovable(KindVolume, aws.ToString(v.VolumeId), v.Tags) && v.State != types.VolumeStateDeleting && v.State != types.VolumeStateDeleted {
				owned = append(owned, v)
			}
		}
	}
	if len(owned) == 0 {
		return nil
	}
	machine, err := p.namesake(ctx)
	if err != nil {
		return err
	}
	for _, v := range owned {
		id := aws.ToString(v.VolumeId)
		if machine != "" {
			p.refused = append(p.refused, ambiguous(KindVolume, id, machine))
			continue
		}
		user, running, err := p.user(ctx, v)
		if err != nil {
			return err
		}
		left := Remaining{Kind: KindVolume, ID: id, Reason: "is in use by machine " + user}
		switch {
		case user == "":
			p.remove(KindVolume, id, func() error {
				_, err := p.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &id})
				return err
			})
		case running:
			left.Action = "detach it, or tag it " + tagRetain + "=true to keep it; then destroy again"
			p.refused = append(p.refused, left)
		default:
			left.Reason += ", which is ending"
			left.Action = "destroy again"
			p.busy = append(p.busy, left)
		}
	}
	return nil
}

// snapshots removes the snapshots of a cluster whose VPC is gone.
func (p *pass) snapshots(ctx context.Context) error {
	var owned []string
	pages := ec2.NewDescribeSnapshotsPaginator(p.ec2, &ec2.DescribeSnapshotsInput{
		OwnerIds: []string{"self"}, Filters: []types.Filter{p.ownedFilter()},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list snapshots: %w", err)
		}
		for _, s := range page.Snapshots {
			if p.isRemovable(KindSnapshot, aws.ToString(s.SnapshotId), s.Tags) {
				owned = append(owned, aws.ToString(s.SnapshotId))
			}
		}
	}
	if len(owned) == 0 {
		return nil
	}
	machine, err := p.namesake(ctx)
	if err != nil {
		return err
	}
	for _, id := range owned {
		if machine != "" {
			p.refused = append(p.refused, ambiguous(KindSnapshot, id, machine))
			continue
		}
		p.remove(KindSnapshot, id, func() error {
			_, err := p.ec2.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &id})
			return err
		})
	}
	return nil
}

func (p *pass) ownedFilter() types.Filter {
	return filter("tag:"+tagClusterPrefix+p.scope.Cluster, valueOwned)
}

// isRemovable says whether data is the cluster's and not to be kept.
func (p *pass) isRemovable(kind Kind, id string, list []types.Tag) bool {
	tags := ec2Tags(list)
	if !p.scope.isLeftover(tags) {
		return false
	}
	if tags[tagRetain] == "true" {
		p.tell(p.report, fmt.Sprintf("kept %s %s, which is tagged %s", kind, id, tagRetain))
		return false
	}
	return true
}

// namesake is a machine that lives and has the cluster's tag; empty if there is none.
func (p *pass) namesake(ctx context.Context) (string, error) {
	pages := ec2.NewDescribeInstancesPaginator(p.ec2, &ec2.DescribeInstancesInput{Filters: []types.Filter{
		p.ownedFilter(),
		filter("instance-state-name", string(types.InstanceStateNamePending), string(types.InstanceStateNameRunning),
			string(types.InstanceStateNameStopping), string(types.InstanceStateNameStopped)),
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return "", fmt.Errorf("list machines: %w", err)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				return aws.ToString(i.InstanceId), nil
			}
		}
	}
	return "", nil
}

func ambiguous(kind Kind, id, machine string) Remaining {
	return Remaining{
		Kind: kind, ID: id,
		Reason: "may belong to another cluster of the same name, of which machine " + machine + " is a part",
		Action: "remove it by hand, or tag it " + tagRetain + "=true to keep it; then destroy again",
	}
}

// user is the machine that a volume is attached to, if any, and whether it lives.
func (p *pass) user(ctx context.Context, v types.Volume) (id string, running bool, err error) {
	for _, a := range v.Attachments {
		if id = aws.ToString(a.InstanceId); id != "" {
			break
		}
	}
	if id == "" {
		return "", false, nil
	}
	out, err := p.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if notFound(err) {
		return id, false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("look at the machine of volume %s: %w", aws.ToString(v.VolumeId), err)
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			ending := i.State != nil && (i.State.Name == types.InstanceStateNameShuttingDown || i.State.Name == types.InstanceStateNameTerminated)
			running = running || !ending
		}
	}
	return id, running, nil
}
