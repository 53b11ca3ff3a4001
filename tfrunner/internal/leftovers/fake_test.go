package leftovers_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbclassic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/smithy-go"
	smithymiddleware "github.com/aws/smithy-go/middleware"

	"github.com/kubeopera/platform/tfrunner/internal/leftovers"
)

// fake answers calls of the real clients in place of AWS: inside of the SDK's
// retries, so that these are the real ones too.
type fake struct {
	mu      sync.Mutex
	answers map[string]func(in any) (any, error) // by "<service>.<operation>"
	calls   []string                             // operations that change something, with what they change
}

// newFake returns an account with nothing but these VPCs, all of the environment.
func newFake(vpcs ...string) *fake {
	f := &fake{answers: map[string]func(any) (any, error){}}
	var list []types.Vpc
	for _, id := range vpcs {
		list = append(list, types.Vpc{VpcId: &id})
	}
	always[ec2.DescribeVpcsInput](f, "EC2.DescribeVpcs", ec2.DescribeVpcsOutput{Vpcs: list})
	always[ec2.DescribeSecurityGroupsInput](f, "EC2.DescribeSecurityGroups", ec2.DescribeSecurityGroupsOutput{})
	always[ec2.DescribeNetworkInterfacesInput](f, "EC2.DescribeNetworkInterfaces", ec2.DescribeNetworkInterfacesOutput{})
	always[ec2.DescribeInstancesInput](f, "EC2.DescribeInstances", ec2.DescribeInstancesOutput{})
	always[ec2.DescribeVolumesInput](f, "EC2.DescribeVolumes", ec2.DescribeVolumesOutput{})
	always[ec2.DescribeSnapshotsInput](f, "EC2.DescribeSnapshots", ec2.DescribeSnapshotsOutput{})
	always[elb.DescribeLoadBalancersInput](f, "Elastic Load Balancing v2.DescribeLoadBalancers", elb.DescribeLoadBalancersOutput{})
	always[elb.DescribeTargetGroupsInput](f, "Elastic Load Balancing v2.DescribeTargetGroups", elb.DescribeTargetGroupsOutput{})
	always[elbclassic.DescribeLoadBalancersInput](f, "Elastic Load Balancing.DescribeLoadBalancers", elbclassic.DescribeLoadBalancersOutput{})
	return f
}

// on sets the answer to an operation.
func on[In, Out any](f *fake, operation string, answer func(*In) (*Out, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[operation] = func(in any) (any, error) {
		typed, ok := in.(*In)
		if !ok {
			return nil, fmt.Errorf("%s has input %T", operation, in)
		}
		return answer(typed)
	}
}

// always answers an operation with the same.
func always[In, Out any](f *fake, operation string, out Out) {
	on(f, operation, func(*In) (*Out, error) { return &out, nil })
}

// refuse answers an operation with an error code.
func refuse(f *fake, operation, code string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[operation] = func(any) (any, error) { return nil, failure(code) }
}

func failure(code string) error {
	return &smithy.GenericAPIError{Code: code, Message: "as told", Fault: smithy.FaultClient}
}

// remover returns a Remover for the cluster "acme" on the fake.
func (f *fake) remover() *leftovers.Remover {
	return leftovers.New(aws.Config{
		Region:      "eu-west-1",
		Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", ""),
		APIOptions:  []func(*smithymiddleware.Stack) error{f.install},
	}, leftovers.Scope{Environment: "acme", Cluster: "acme"})
}

type inputKey struct{}

func (f *fake) install(stack *smithymiddleware.Stack) error {
	keep := smithymiddleware.InitializeMiddlewareFunc("KeepInput", func(
		ctx context.Context, in smithymiddleware.InitializeInput, next smithymiddleware.InitializeHandler,
	) (smithymiddleware.InitializeOutput, smithymiddleware.Metadata, error) {
		return next.HandleInitialize(smithymiddleware.WithStackValue(ctx, inputKey{}, in.Parameters), in)
	})
	if err := stack.Initialize.Add(keep, smithymiddleware.Before); err != nil {
		return err
	}
	return stack.Finalize.Insert(smithymiddleware.FinalizeMiddlewareFunc("Answer", func(
		ctx context.Context, _ smithymiddleware.FinalizeInput, _ smithymiddleware.FinalizeHandler,
	) (smithymiddleware.FinalizeOutput, smithymiddleware.Metadata, error) {
		out, err := f.answer(middleware.GetServiceID(ctx), middleware.GetOperationName(ctx), smithymiddleware.GetStackValue(ctx, inputKey{}))
		return smithymiddleware.FinalizeOutput{Result: out}, smithymiddleware.Metadata{}, err
	}), "Retry", smithymiddleware.After)
}

func (f *fake) answer(service, operation string, in any) (any, error) {
	f.mu.Lock()
	name := service + "." + operation
	answer := f.answers[name]
	if !strings.HasPrefix(operation, "Describe") && !strings.HasPrefix(operation, "Get") {
		f.calls = append(f.calls, operation+subject(in))
	}
	f.mu.Unlock()
	if answer == nil {
		return nil, fmt.Errorf("no answer for %s", name)
	}
	return answer(in)
}

// subject is the one id or name that an input has.
func subject(in any) string {
	v := reflect.ValueOf(in).Elem()
	for _, field := range []string{"GroupId", "LoadBalancerArn", "LoadBalancerName", "NetworkInterfaceId", "SnapshotId", "TargetGroupArn", "VolumeId"} {
		if f := v.FieldByName(field); f.IsValid() && !f.IsNil() {
			return " " + f.Elem().String()
		}
	}
	return ""
}

// changed is what was called that changes something, in order, each once.
func (f *fake) changed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Compact(slices.Clone(f.calls))
}
