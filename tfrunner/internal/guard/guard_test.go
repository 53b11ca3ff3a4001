package guard

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	tfjson "github.com/hashicorp/terraform-json"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	change := func(kind, name string, actions ...tfjson.Action) *tfjson.ResourceChange {
		return &tfjson.ResourceChange{
			Address: kind + "." + name, Mode: tfjson.ManagedResourceMode, Type: kind, Name: name,
			Change: &tfjson.Change{Actions: actions},
		}
	}
	with := func(rc *tfjson.ResourceChange, edit func(*tfjson.ResourceChange)) *tfjson.ResourceChange {
		edit(rc)
		return rc
	}
	replace := []tfjson.Action{tfjson.ActionDelete, tfjson.ActionCreate}
	tests := []struct {
		name string
		in   *tfjson.ResourceChange
		want []string
	}{
		{"a VPC that is replaced", change("aws_vpc", "this", replace...), []string{"replace the VPC (aws_vpc.this)"}},
		{"a cluster that is created before its predecessor is deleted", change("aws_eks_cluster", "this", tfjson.ActionCreate, tfjson.ActionDelete), []string{"replace the EKS cluster (aws_eks_cluster.this)"}},
		{"a load balancer that is deleted", change("aws_lb", "k8s_api", tfjson.ActionDelete), []string{"delete the load balancer (aws_lb.k8s_api)"}},
		{"a control-plane node that is replaced", change("aws_instance", "control_plane", replace...), []string{"replace a control-plane node (aws_instance.control_plane)"}},
		{
			"a control-plane node of the module that is replaced",
			with(change("aws_instance", "control_plane", replace...), func(rc *tfjson.ResourceChange) {
				rc.Address, rc.ModuleAddress = "module.compute.aws_instance.control_plane[1]", "module.compute"
			}),
			[]string{"replace a control-plane node (module.compute.aws_instance.control_plane[1])"},
		},
		{"a control-plane node that was gone and comes back", change("aws_instance", "control_plane", tfjson.ActionCreate), nil},
		{"a control-plane node that is changed in place", change("aws_instance", "control_plane", tfjson.ActionUpdate), nil},
		{"a worker's launch template", change("aws_launch_template", "worker", replace...), nil},
		{"a parameter that is replaced", change("aws_ssm_parameter", "cluster_state", replace...), []string{"replace what the cluster's nodes know of it (aws_ssm_parameter.cluster_state)"}},
		{"a parameter whose tags change", change("aws_ssm_parameter", "cluster_state", tfjson.ActionUpdate), nil},
		{"another instance", change("aws_instance", "bastion", replace...), nil},
		{"a node group", change("aws_eks_node_group", "this", replace...), nil},
		{"a VPC that is created", change("aws_vpc", "this", tfjson.ActionCreate), nil},
		{"a VPC that is changed in place", change("aws_vpc", "this", tfjson.ActionUpdate), nil},
		{"a VPC that is forgotten", change("aws_vpc", "this", tfjson.ActionForget), nil},
		{"a VPC that stays", change("aws_vpc", "this", tfjson.ActionNoop), nil},
		{
			"a cluster whose creation never finished",
			with(change("aws_eks_cluster", "this", replace...), func(rc *tfjson.ResourceChange) { rc.ActionReason = tfjson.ActionReasonReplaceBecauseTainted }), nil,
		},
		{
			"what an earlier replacement left behind",
			with(change("aws_lb", "k8s_api", tfjson.ActionDelete), func(rc *tfjson.ResourceChange) { rc.DeposedKey = "0123abcd" }), nil,
		},
		{
			"a data source",
			with(change("aws_vpc", "this", replace...), func(rc *tfjson.ResourceChange) { rc.Mode = tfjson.DataResourceMode }), nil,
		},
		{"nothing", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, v := range Check(&tfjson.Plan{ResourceChanges: []*tfjson.ResourceChange{tt.in}}) {
				got = append(got, v.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}
