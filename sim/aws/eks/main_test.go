package eks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/aws/eks"
	"github.com/kubeopera/platform/sim/aws/keyring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	accountID = "123456789012"
	region    = "eu-central-1"
	delay     = 10 * time.Minute
	userARN   = "arn:aws:iam::123456789012:user/platform"
	roleARN   = "arn:aws:iam::123456789012:role/cluster"
	nodeARN   = "arn:aws:iam::123456789012:role/node"
)

// clock is moved by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// account has three subnets in two zones, one in another VPC, a launch
// template and two roles.
type account struct {
	mu     sync.Mutex
	groups map[string]bool
}

var _ eks.Account = (*account)(nil)

func (a *account) Subnets(_ context.Context, _ string, ids []string) ([]eks.Subnet, error) {
	known := map[string]eks.Subnet{
		"subnet-a": {VPCID: "vpc-1", Zone: "eu-central-1a"}, "subnet-a2": {VPCID: "vpc-1", Zone: "eu-central-1a"},
		"subnet-b": {VPCID: "vpc-1", Zone: "eu-central-1b"}, "subnet-x": {VPCID: "vpc-2", Zone: "eu-central-1b"},
	}
	var out []eks.Subnet
	for _, id := range ids {
		s, ok := known[id]
		if !ok {
			return nil, fmt.Errorf("%s: %w", id, eks.ErrNotFound)
		}
		out = append(out, s)
	}
	return out, nil
}

func (a *account) CreateSecurityGroup(_ context.Context, _, vpcID, cluster string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := "sg-" + vpcID + "-" + cluster
	a.groups[id] = true
	return id, nil
}

func (a *account) DeleteSecurityGroup(_ context.Context, _, id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.groups[id] {
		return eks.ErrNotFound
	}
	delete(a.groups, id)
	return nil
}

func (a *account) LaunchTemplate(_ context.Context, _, id, name string) (eks.Template, error) {
	if id != "lt-1" && name != "template" {
		return eks.Template{}, eks.ErrNotFound
	}
	return eks.Template{ID: "lt-1", Name: "template"}, nil
}

func (a *account) RoleTrusts(_ context.Context, arn, service string) (bool, error) {
	return arn == roleARN && service == "eks.amazonaws.com" || arn == nodeARN && service == "ec2.amazonaws.com" ||
		strings.HasPrefix(service, "pods."), nil
}

type fixture struct {
	*sdk.Client

	service *eks.Service
	clock   *clock
	account *account
	planes  *eks.Shared
}

func setup(t *testing.T) *fixture {
	t.Helper()
	planes := &eks.Shared{}
	planes.Set(eks.Endpoint{URL: "https://127.0.0.1:6443", CA: []byte("pem")})
	f := serve(t, planes)
	f.planes = planes
	return f
}

// serve serves the fake as the gateway does, for one caller.
func serve(t *testing.T, planes eks.ControlPlanes) *fixture {
	t.Helper()
	f := &fixture{clock: &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}, account: &account{groups: map[string]bool{}}}
	var err error
	f.service, err = eks.New(eks.Config{AccountID: accountID, ControlPlanes: planes, Account: f.account, Delay: delay, Now: f.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.service.ServeHTTP(w, r.WithContext(keyring.WithCaller(r.Context(), keyring.Caller{Region: region, PrincipalARN: userARN})))
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	f.Client = sdk.New(sdk.Options{
		Region: region, BaseEndpoint: &server.URL, HTTPClient: &http.Client{Transport: transport}, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", ""),
	})
	return f
}

// input is a request that is good; change makes it another one.
func input(change func(*sdk.CreateClusterInput)) *sdk.CreateClusterInput {
	in := &sdk.CreateClusterInput{
		Name: new("c"), RoleArn: new(roleARN), Version: new("1.34"),
		ResourcesVpcConfig:         &types.VpcConfigRequest{SubnetIds: []string{"subnet-a", "subnet-b"}},
		AccessConfig:               &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeApi, BootstrapClusterCreatorAdminPermissions: new(false)},
		BootstrapSelfManagedAddons: new(false),
	}
	if change != nil {
		change(in)
	}
	return in
}

// active makes a cluster and waits until it is ACTIVE.
func (f *fixture) active(t *testing.T, change func(*sdk.CreateClusterInput)) {
	t.Helper()
	if _, err := f.CreateCluster(t.Context(), input(change)); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(delay)
	if got := f.status(t); got != types.ClusterStatusActive {
		t.Fatalf("cluster is %s", got)
	}
}

func (f *fixture) status(t *testing.T) types.ClusterStatus {
	t.Helper()
	out, err := f.DescribeCluster(t.Context(), &sdk.DescribeClusterInput{Name: new("c")})
	if err != nil {
		t.Fatal(err)
	}
	return out.Cluster.Status
}

// code is the error's code, or "ok".
func code(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return "ok"
	}
	apiErr, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		t.Fatalf("no API error: %v", err)
	}
	return apiErr.ErrorCode()
}
