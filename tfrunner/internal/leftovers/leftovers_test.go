package leftovers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/tfrunner/internal/leftovers"
)

var owned = []types.Tag{{Key: new("kubernetes.io/cluster/acme"), Value: new("owned")}}

// lines collects what is reported; each test's own goroutines write it in turn.
type lines []string

func (l *lines) add(line string) { *l = append(*l, line) }

// remains are the kinds and ids of what an error says remains.
func remains(t *testing.T, err error) []string {
	t.Helper()
	left, ok := errors.AsType[*leftovers.RemainingError](err)
	if !ok {
		t.Fatalf("error %v, want a RemainingError", err)
	}
	var list []string
	for _, r := range left.Remaining {
		if r.Reason == "" || r.Action == "" || !strings.Contains(err.Error(), r.ID) {
			t.Errorf("%+v is not told in %q", r, err)
		}
		list = append(list, string(r.Kind)+" "+r.ID)
	}
	return list
}

func TestRemove_waits_for_a_security_group_that_is_in_use(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("vpc-1")
		begin := time.Now()
		gone := false
		on(f, "EC2.DescribeSecurityGroups", func(in *ec2.DescribeSecurityGroupsInput) (*ec2.DescribeSecurityGroupsOutput, error) {
			if gone || *in.Filters[0].Name != "vpc-id" {
				return &ec2.DescribeSecurityGroupsOutput{}, nil
			}
			return &ec2.DescribeSecurityGroupsOutput{SecurityGroups: []types.SecurityGroup{{GroupId: new("sg-1"), Tags: owned}}}, nil
		})
		on(f, "EC2.DeleteSecurityGroup", func(*ec2.DeleteSecurityGroupInput) (*ec2.DeleteSecurityGroupOutput, error) {
			if time.Since(begin) < 3*time.Minute {
				return nil, failure("DependencyViolation")
			}
			gone = true
			return &ec2.DeleteSecurityGroupOutput{}, nil
		})
		var told lines
		if err := f.remover().Remove(t.Context(), told.add); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(lines{"removed security group sg-1"}, told); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
	})
}

func TestRemove_names_what_cannot_be_removed(t *testing.T) {
	for _, tt := range []struct{ code, action string }{
		{"DependencyViolation", "remove that"},
		{"UnauthorizedOperation", "allow the credential"},
		{"OperationNotPermitted", "switch off what protects it"},
		{"InvalidGroup.Reserved", "by hand"},
		{"RequestLimitExceeded", "destroy again"},
	} {
		t.Run(tt.code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake("vpc-1")
				always[ec2.DescribeSecurityGroupsInput](f, "EC2.DescribeSecurityGroups", ec2.DescribeSecurityGroupsOutput{
					SecurityGroups: []types.SecurityGroup{{GroupId: new("sg-1"), Tags: owned}, {GroupId: new("sg-2"), Tags: owned}},
				})
				on(f, "EC2.DeleteSecurityGroup", func(in *ec2.DeleteSecurityGroupInput) (*ec2.DeleteSecurityGroupOutput, error) {
					if *in.GroupId == "sg-1" {
						return nil, failure(tt.code)
					}
					return &ec2.DeleteSecurityGroupOutput{}, nil
				})
				var told lines
				err := f.remover().Remove(t.Context(), told.add)
				if diff := cmp.Diff([]string{"security group sg-1"}, remains(t, err)); diff != "" {
					t.Errorf("remaining (-want +got):\n%s", diff)
				}
				if !strings.Contains(err.Error(), tt.action) {
					t.Errorf("error %q does not say %q", err, tt.action)
				}
				if diff := cmp.Diff(lines{"removed security group sg-2"}, told); diff != "" {
					t.Errorf("reported (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRemove_leaves_security_groups_that_others_still_need(t *testing.T) {
	ofEKS := append(slices.Clone(owned), types.Tag{Key: new("aws:eks:cluster-name"), Value: new("acme")})
	machines := types.NetworkInterface{NetworkInterfaceId: new("eni-1"), Attachment: &types.NetworkInterfaceAttachment{InstanceId: new("i-1")}}
	somebodys := types.NetworkInterface{NetworkInterfaceId: new("eni-2"), Description: new("a database"), Attachment: &types.NetworkInterfaceAttachment{}}
	for _, tt := range []struct {
		name       string
		tags       []types.Tag
		users      []types.NetworkInterface
		clusterErr string // what EKS says of the cluster; empty: it is there
		want       []string
		remains    string
	}{
		{name: "nobody", tags: owned, want: []string{"DeleteSecurityGroup sg-1"}},
		{name: "a machine, which Terraform ends", tags: owned, users: []types.NetworkInterface{machines}},
		{name: "somebody else", tags: owned, users: []types.NetworkInterface{somebodys}, remains: "eni-2 (a database)"},
		{name: "a cluster of EKS that is there", tags: ofEKS},
		{name: "a cluster of EKS that is gone", tags: ofEKS, clusterErr: "ResourceNotFoundException", want: []string{"DeleteSecurityGroup sg-1"}},
		{name: "somebody else, of a group of EKS", tags: ofEKS, clusterErr: "ResourceNotFoundException", users: []types.NetworkInterface{somebodys}, remains: "eni-2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake("vpc-1")
				on(f, "EC2.DescribeSecurityGroups", func(in *ec2.DescribeSecurityGroupsInput) (*ec2.DescribeSecurityGroupsOutput, error) {
					if *in.Filters[0].Name != "vpc-id" {
						return &ec2.DescribeSecurityGroupsOutput{}, nil
					}
					return &ec2.DescribeSecurityGroupsOutput{SecurityGroups: []types.SecurityGroup{{GroupId: new("sg-1"), Tags: tt.tags}}}, nil
				})
				on(f, "EC2.DescribeNetworkInterfaces", func(in *ec2.DescribeNetworkInterfacesInput) (*ec2.DescribeNetworkInterfacesOutput, error) {
					if *in.Filters[0].Name != "group-id" {
						return &ec2.DescribeNetworkInterfacesOutput{}, nil
					}
					return &ec2.DescribeNetworkInterfacesOutput{NetworkInterfaces: tt.users}, nil
				})
				always[ec2.DeleteSecurityGroupInput](f, "EC2.DeleteSecurityGroup", ec2.DeleteSecurityGroupOutput{})
				always[eks.DescribeClusterInput](f, "EKS.DescribeCluster", eks.DescribeClusterOutput{})
				if tt.clusterErr != "" {
					refuse(f, "EKS.DescribeCluster", tt.clusterErr)
				}
				err := f.remover().Remove(t.Context(), func(string) {})
				if diff := cmp.Diff(tt.want, f.changed()); diff != "" {
					t.Errorf("changes (-want +got):\n%s", diff)
				}
				switch {
				case tt.remains == "" && err != nil:
					t.Error(err)
				case tt.remains != "":
					if diff := cmp.Diff([]string{"security group sg-1"}, remains(t, err)); diff != "" {
						t.Errorf("remaining (-want +got):\n%s", diff)
					}
					if !strings.Contains(err.Error(), tt.remains) {
						t.Errorf("error %q does not say %q", err, tt.remains)
					}
				}
			})
		})
	}
}

func TestRemove_goes_on_after_a_list_that_is_refused(t *testing.T) {
	f := newFake("vpc-1")
	refuse(f, "Elastic Load Balancing v2.DescribeLoadBalancers", "AccessDenied")
	always[ec2.DescribeNetworkInterfacesInput](f, "EC2.DescribeNetworkInterfaces", ec2.DescribeNetworkInterfacesOutput{
		NetworkInterfaces: []types.NetworkInterface{{NetworkInterfaceId: new("eni-1"), Status: types.NetworkInterfaceStatusAvailable, TagSet: owned}},
	})
	always[ec2.DeleteNetworkInterfaceInput](f, "EC2.DeleteNetworkInterface", ec2.DeleteNetworkInterfaceOutput{})
	err := f.remover().Remove(t.Context(), func(string) {})
	if err == nil || !strings.Contains(err.Error(), "list load balancers") || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"DeleteNetworkInterface eni-1"}, f.changed()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestRemove_reads_all_pages_and_outlasts_throttling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("vpc-1")
		const count = 45 // three batches of tags
		arn := func(i int) string { return fmt.Sprintf("arn:%02d", i) }
		var want []string
		for i := range count {
			want = append(want, "DeleteLoadBalancer "+arn(i))
		}
		deleted, throttled := map[string]bool{}, 0
		on(f, "Elastic Load Balancing v2.DescribeLoadBalancers", func(in *elb.DescribeLoadBalancersInput) (*elb.DescribeLoadBalancersOutput, error) {
			if throttled++; throttled%4 != 0 {
				return nil, failure("Throttling")
			}
			out := &elb.DescribeLoadBalancersOutput{NextMarker: new("next")}
			from := 0
			if in.Marker != nil {
				out.NextMarker, from = nil, 30
			}
			for i := from; i < min(from+30, count); i++ {
				if !deleted[arn(i)] {
					out.LoadBalancers = append(out.LoadBalancers, elbtypes.LoadBalancer{LoadBalancerArn: new(arn(i)), LoadBalancerName: new(arn(i)), VpcId: new("vpc-1")})
				}
			}
			return out, nil
		})
		on(f, "Elastic Load Balancing v2.DescribeTags", func(in *elb.DescribeTagsInput) (*elb.DescribeTagsOutput, error) {
			if len(in.ResourceArns) > 20 {
				return nil, failure("ValidationError")
			}
			var out elb.DescribeTagsOutput
			for _, a := range in.ResourceArns {
				out.TagDescriptions = append(out.TagDescriptions, elbtypes.TagDescription{
					ResourceArn: &a, Tags: []elbtypes.Tag{{Key: new("elbv2.k8s.aws/cluster"), Value: new("acme")}},
				})
			}
			return &out, nil
		})
		on(f, "Elastic Load Balancing v2.DeleteLoadBalancer", func(in *elb.DeleteLoadBalancerInput) (*elb.DeleteLoadBalancerOutput, error) {
			deleted[*in.LoadBalancerArn] = true
			return &elb.DeleteLoadBalancerOutput{}, nil
		})
		if err := f.remover().Remove(t.Context(), func(string) {}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, f.changed()); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}

func TestRemove_keeps_data_until_the_VPC_is_gone_and_while_it_is_somebodys(t *testing.T) {
	tagged := func(extra ...string) []types.Tag {
		tags := slices.Clone(owned)
		for i := 0; i < len(extra); i += 2 {
			tags = append(tags, types.Tag{Key: &extra[i], Value: &extra[i+1]})
		}
		return tags
	}
	volumes := []types.Volume{
		{VolumeId: new("vol-free"), Tags: owned, State: types.VolumeStateAvailable},
		{VolumeId: new("vol-kept"), Tags: tagged("kubeopera.io/retain", "true"), State: types.VolumeStateAvailable},
		{VolumeId: new("vol-terraforms"), Tags: tagged("kubeopera.io/environment", "acme"), State: types.VolumeStateAvailable},
		{VolumeId: new("vol-others"), Tags: []types.Tag{{Key: new("kubernetes.io/cluster/acme-2"), Value: new("owned")}}},
		{VolumeId: new("vol-shared"), Tags: []types.Tag{{Key: new("kubernetes.io/cluster/acme"), Value: new("shared")}}},
		{VolumeId: new("vol-used"), Tags: owned, State: types.VolumeStateInUse, Attachments: []types.VolumeAttachment{{InstanceId: new("i-live")}}},
		{VolumeId: new("vol-ending"), Tags: owned, State: types.VolumeStateInUse, Attachments: []types.VolumeAttachment{{InstanceId: new("i-ending")}}},
		{VolumeId: new("vol-going"), Tags: owned, State: types.VolumeStateDeleting},
	}
	for _, tt := range []struct {
		name          string
		vpcs          []string
		namesake      bool
		want, remains []string
	}{
		{name: "the VPC is there", vpcs: []string{"vpc-1"}},
		{
			name:    "the VPC is gone",
			want:    []string{"DeleteVolume vol-free", "DeleteSnapshot snap-1", "DeleteVolume vol-ending"},
			remains: []string{"volume vol-used"},
		},
		{
			name: "another cluster has the name", namesake: true,
			remains: []string{"volume vol-free", "volume vol-used", "volume vol-ending", "snapshot snap-1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(tt.vpcs...)
				gone := map[string]bool{}
				on(f, "EC2.DescribeVolumes", func(*ec2.DescribeVolumesInput) (*ec2.DescribeVolumesOutput, error) {
					var out ec2.DescribeVolumesOutput
					for _, v := range volumes {
						if *v.VolumeId == "vol-ending" && gone["vol-free"] {
							v.Attachments = nil
						}
						if !gone[*v.VolumeId] {
							out.Volumes = append(out.Volumes, v)
						}
					}
					return &out, nil
				})
				on(f, "EC2.DescribeSnapshots", func(*ec2.DescribeSnapshotsInput) (*ec2.DescribeSnapshotsOutput, error) {
					if gone["snap-1"] {
						return &ec2.DescribeSnapshotsOutput{}, nil
					}
					return &ec2.DescribeSnapshotsOutput{Snapshots: []types.Snapshot{{SnapshotId: new("snap-1"), Tags: owned}}}, nil
				})
				on(f, "EC2.DescribeInstances", func(in *ec2.DescribeInstancesInput) (*ec2.DescribeInstancesOutput, error) {
					i := types.Instance{InstanceId: new("i-live"), State: &types.InstanceState{Name: types.InstanceStateNameRunning}}
					if slices.Equal(in.InstanceIds, []string{"i-ending"}) {
						return nil, failure("InvalidInstanceID.NotFound")
					}
					if len(in.InstanceIds) == 0 && !tt.namesake {
						return &ec2.DescribeInstancesOutput{}, nil
					}
					return &ec2.DescribeInstancesOutput{Reservations: []types.Reservation{{Instances: []types.Instance{i}}}}, nil
				})
				on(f, "EC2.DeleteVolume", func(in *ec2.DeleteVolumeInput) (*ec2.DeleteVolumeOutput, error) {
					gone[*in.VolumeId] = true
					return &ec2.DeleteVolumeOutput{}, nil
				})
				on(f, "EC2.DeleteSnapshot", func(in *ec2.DeleteSnapshotInput) (*ec2.DeleteSnapshotOutput, error) {
					gone[*in.SnapshotId] = true
					return &ec2.DeleteSnapshotOutput{}, nil
				})
				var told lines
				err := f.remover().Remove(t.Context(), told.add)
				if diff := cmp.Diff(tt.want, f.changed()); diff != "" {
					t.Errorf("changes (-want +got):\n%s", diff)
				}
				if len(tt.remains) == 0 {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if diff := cmp.Diff(tt.remains, remains(t, err)); diff != "" {
					t.Errorf("remaining (-want +got):\n%s", diff)
				}
				if line := "kept volume vol-kept, which is tagged kubeopera.io/retain"; !slices.Contains(told, line) {
					t.Errorf("reported %q, want also %q", told, line)
				}
			})
		})
	}
}

func TestRemove_expects_the_VPC_to_be_gone_once_Terraform_has_destroyed_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("vpc-1")
		r := f.remover()
		if err := r.RemoveDuring(t.Context(), func(string) {}, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		err := r.Remove(t.Context(), func(string) {})
		if diff := cmp.Diff([]string{"VPC vpc-1"}, remains(t, err)); diff != "" {
			t.Errorf("remaining (-want +got):\n%s", diff)
		}
	})
}

func TestRemoveDuring_removes_what_appears_and_returns_Terraforms_error(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("vpc-1")
		always[ec2.DeleteNetworkInterfaceInput](f, "EC2.DeleteNetworkInterface", ec2.DeleteNetworkInterfaceOutput{})
		refuse(f, "EC2.DescribeNetworkInterfaces", "RequestExpired") // no reason to stop Terraform
		failed := errors.New("DependencyViolation")
		var told lines
		err := f.remover().RemoveDuring(t.Context(), told.add, func(context.Context) error {
			time.Sleep(time.Minute) //nolint:forbidigo // in a bubble: what Terraform takes
			always[ec2.DescribeNetworkInterfacesInput](f, "EC2.DescribeNetworkInterfaces", ec2.DescribeNetworkInterfacesOutput{
				NetworkInterfaces: []types.NetworkInterface{{NetworkInterfaceId: new("eni-1"), Status: types.NetworkInterfaceStatusAvailable, TagSet: owned}},
			})
			time.Sleep(time.Minute) //nolint:forbidigo // in a bubble
			return failed
		})
		if !errors.Is(err, failed) {
			t.Errorf("error %v", err)
		}
		if diff := cmp.Diff([]string{"DeleteNetworkInterface eni-1"}, f.changed()); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		if len(told) != 2 || !strings.HasPrefix(told[0], "warning: list network interfaces") || told[1] != "removed network interface eni-1" {
			t.Errorf("reported %q", told)
		}
	})
}

func TestRemove_ends_with_its_context(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("vpc-1")
		always[ec2.DescribeNetworkInterfacesInput](f, "EC2.DescribeNetworkInterfaces", ec2.DescribeNetworkInterfacesOutput{
			NetworkInterfaces: []types.NetworkInterface{{NetworkInterfaceId: new("eni-1"), Status: types.NetworkInterfaceStatusAvailable, TagSet: owned}},
		})
		refuse(f, "EC2.DeleteNetworkInterface", "InvalidNetworkInterface.InUse")
		interrupted := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(interrupted) })
		begin := time.Now()
		if err := f.remover().Remove(ctx, func(string) {}); !errors.Is(err, interrupted) || time.Since(begin) != time.Minute {
			t.Errorf("error %v after %s", err, time.Since(begin))
		}
	})
}

func TestRemoveParameters_reads_all_pages_and_deletes_ten_at_a_time(t *testing.T) {
	f := newFake()
	var all, deleted []string
	for i := range 23 {
		all = append(all, fmt.Sprintf("/kubeopera/acme/join_turns/%d", i))
	}
	on(f, "SSM.GetParametersByPath", func(in *ssm.GetParametersByPathInput) (*ssm.GetParametersByPathOutput, error) {
		if *in.Path != "/kubeopera/acme/" || !*in.Recursive || in.WithDecryption != nil {
			return nil, failure("ValidationException")
		}
		out, from := &ssm.GetParametersByPathOutput{NextToken: new("x")}, 0
		if in.NextToken != nil {
			from, _ = len(*in.NextToken)*10, 0
			out.NextToken = new(*in.NextToken + "x")
		}
		to := min(from+10, len(all))
		if to == len(all) {
			out.NextToken = nil
		}
		for _, name := range all[from:to] {
			out.Parameters = append(out.Parameters, ssmtypes.Parameter{Name: &name})
		}
		return out, nil
	})
	on(f, "SSM.DeleteParameters", func(in *ssm.DeleteParametersInput) (*ssm.DeleteParametersOutput, error) {
		if len(in.Names) > 10 {
			return nil, failure("ValidationException")
		}
		deleted = append(deleted, in.Names...)
		return &ssm.DeleteParametersOutput{DeletedParameters: in.Names}, nil
	})
	var told lines
	if err := f.remover().RemoveParameters(t.Context(), told.add); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, deleted); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(lines{"removed 23 parameters that the nodes wrote"}, told); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}
