package e2e

import (
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
)

// destroy destroys a run's environment through the API, and checks that the
// cluster's network is gone and that its kubeconfig is not given out any more.
func destroy(t *testing.T, run api.Provision) {
	t.Helper()
	p := platform.Provisioner(t)
	started, err := p.DestroyProvision(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	ended := platform.Wait(t, started.ID, nil)
	if ended.Operation != api.OperationDestroy || ended.Status != api.StatusSucceeded {
		t.Fatalf("the %s ended %s (%s): %s\n%s", ended.Operation, ended.Status, ended.ErrorCode, ended.Message, platform.Logs(t, ended.ID))
	}
	_, err = p.Kubeconfig(t.Context(), run.ID)
	harness.WantProblem(t, err, http.StatusGone, "kubeconfig_gone")
	gone := scaffolding{provision: run.ID, environment: "gone", domain: "gone.example.com", password: "any"}
	_, err = platform.Scaffolder(t).StartScaffold(t.Context(), gone.request())
	harness.WantProblem(t, err, http.StatusConflict, "provision_not_ready")
	vpcs, err := ec2.NewFromConfig(awsConfig()).DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{
		Filters: []ec2types.Filter{{Name: aws.String("tag:kubeopera.io/environment"), Values: []string{run.TerraformEnvironment}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(vpcs.Vpcs) != 0 {
		t.Errorf("%d VPCs are left", len(vpcs.Vpcs))
	}
}

// destroyEKS destroys an EKS cluster whose Kubernetes has made a volume.
func destroyEKS(t *testing.T, run api.Provision) {
	t.Helper()
	cloud := ec2.NewFromConfig(awsConfig())
	volume, err := cloud.CreateVolume(t.Context(), &ec2.CreateVolumeInput{
		AvailabilityZone: aws.String("eu-west-1a"), Size: aws.Int32(1),
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeVolume, Tags: []ec2types.Tag{
			{Key: aws.String("kubernetes.io/cluster/" + run.TerraformEnvironment), Value: aws.String("owned")},
			{Key: aws.String("kubernetes.io/created-for/pvc/name"), Value: aws.String("data")},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	destroy(t, run)
	left, err := cloud.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{
		Filters: []ec2types.Filter{{Name: aws.String("volume-id"), Values: []string{aws.ToString(volume.VolumeId)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Volumes) != 0 {
		t.Error("the volume that Kubernetes made is left")
	}
	_, err = awseks.NewFromConfig(awsConfig()).DescribeCluster(t.Context(), &awseks.DescribeClusterInput{Name: aws.String(run.TerraformEnvironment)})
	if err == nil {
		t.Error("the cluster is left")
	}
}
