package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/awsconfig"
	"github.com/kubeopera/platform/shared/runner/ekstoken"
	"github.com/kubeopera/platform/tfrunner/internal/bootstrap"
	"github.com/kubeopera/platform/tfrunner/internal/ekskubeconfig"
	"github.com/kubeopera/platform/tfrunner/internal/eksversion"
	"github.com/kubeopera/platform/tfrunner/internal/leftovers"
	"github.com/kubeopera/platform/tfrunner/internal/run"
	"github.com/kubeopera/platform/tfrunner/internal/statebucket"
)

// account is the AWS account of the run's credential.
type account struct {
	files awsconfig.Files
	spec  runcontract.Spec
}

// Identity says whose credential it is.
func (a *account) Identity(ctx context.Context) (awsconfig.Identity, error) {
	cfg, err := a.config(ctx)
	if err != nil {
		return awsconfig.Identity{}, err
	}
	return awsconfig.Identify(ctx, cfg)
}

// Bucket finds the state bucket, or makes it if create is set.
func (a *account) Bucket(ctx context.Context, id awsconfig.Identity, create bool) (statebucket.Bucket, run.Objects, error) {
	cfg, err := a.config(ctx)
	if err != nil {
		return statebucket.Bucket{}, nil, err
	}
	in := statebucket.Config{
		AWS: cfg,
		// The one backend setting that is about how S3 is spoken to, not where.
		PathStyle: a.spec.State.BackendConfig["use_path_style"] == "true",
		Identity:  id,
		Bucket:    a.spec.State.Bucket,
		Tags:      a.spec.Tags,
	}
	var bucket statebucket.Bucket
	found := true
	if create {
		bucket, err = statebucket.Ensure(ctx, in)
	} else {
		bucket, found, err = statebucket.Find(ctx, in)
	}
	if err != nil || !found {
		return bucket, nil, err
	}
	return bucket, in.Objects(bucket, a.spec.State.Key, a.spec.State.BackendConfig["kms_key_id"]), nil
}

// Leftovers is what the cluster has made in its region by itself.
func (a *account) Leftovers(ctx context.Context) (run.Leftovers, error) {
	cfg, err := a.config(ctx)
	if err != nil {
		return nil, err
	}
	// The cluster's name is the environment's.
	return leftovers.New(cfg, leftovers.Scope{Environment: a.spec.Environment, Cluster: a.spec.Environment}), nil
}

// Parameters are AWS SSM's parameters in the cluster's region.
func (a *account) Parameters(ctx context.Context) (bootstrap.Parameters, error) {
	cfg, err := a.config(ctx)
	if err != nil {
		return nil, err
	}
	return ssm.NewFromConfig(cfg), nil
}

// CheckVersion asks EKS in the cluster's region.
func (a *account) CheckVersion(ctx context.Context, version string) error {
	cfg, err := a.config(ctx)
	if err != nil {
		return err
	}
	return eksversion.Check(ctx, cfg, version)
}

// ClusterToken signs in to the cluster with the credential and makes a
// ServiceAccount's token there.
func (a *account) ClusterToken(ctx context.Context, cluster ekskubeconfig.Cluster) (string, error) {
	cfg, err := a.config(ctx)
	if err != nil {
		return "", err
	}
	token, err := ekstoken.New(ctx, cfg, cluster.Name, time.Now())
	if err != nil {
		return "", err
	}
	client, err := ekskubeconfig.Client(cluster, token.Value)
	if err != nil {
		return "", err
	}
	return ekskubeconfig.EnsureToken(ctx, client)
}

// Keys are the credential itself.
func (a *account) Keys(ctx context.Context) (ekskubeconfig.Keys, error) {
	cfg, err := a.config(ctx)
	if err != nil {
		return ekskubeconfig.Keys{}, err
	}
	keys, err := cfg.Credentials.Retrieve(ctx)
	switch {
	case err != nil:
		return ekskubeconfig.Keys{}, fmt.Errorf("read the AWS credential: %w", err)
	case keys.CanExpire:
		return ekskubeconfig.Keys{}, errors.New("the credential is a role, whose keys end within hours: use another kubeconfig_auth than embedded_credential")
	}
	return ekskubeconfig.Keys{
		AccessKeyID:     keys.AccessKeyID,
		SecretAccessKey: keys.SecretAccessKey,
		SessionToken:    keys.SessionToken,
	}, nil
}
