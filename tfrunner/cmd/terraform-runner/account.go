package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/awsconfig"
	"github.com/kubeopera/platform/tfrunner/internal/bootstrap"
	"github.com/kubeopera/platform/tfrunner/internal/ekskubeconfig"
	"github.com/kubeopera/platform/tfrunner/internal/statebucket"
)

// account is the AWS account of the run's credential.
type account struct {
	files awsconfig.Files
	spec  runcontract.Spec
}

// Identity says whose credential it is.
func (a *account) Identity(ctx context.Context) (awsconfig.Identity, error) {
	cfg, err := awsconfig.Load(ctx, a.files, a.spec.Region)
	if err != nil {
		return awsconfig.Identity{}, err
	}
	return awsconfig.Identify(ctx, cfg)
}

// EnsureBucket makes sure that the state bucket exists.
func (a *account) EnsureBucket(ctx context.Context, id awsconfig.Identity) (statebucket.Bucket, error) {
	cfg, err := awsconfig.Load(ctx, a.files, a.spec.Region)
	if err != nil {
		return statebucket.Bucket{}, err
	}
	return statebucket.Ensure(ctx, statebucket.Config{
		AWS: cfg,
		// The one backend setting that is about how S3 is spoken to, not where.
		PathStyle: a.spec.State.BackendConfig["use_path_style"] == "true",
		Identity:  id,
		Bucket:    a.spec.State.Bucket,
		Tags:      a.spec.Tags,
	})
}

// Parameters are AWS SSM's parameters in the cluster's region.
func (a *account) Parameters(ctx context.Context) (bootstrap.Parameters, error) {
	cfg, err := awsconfig.Load(ctx, a.files, a.spec.Region)
	if err != nil {
		return nil, err
	}
	return ssm.NewFromConfig(cfg), nil
}

// Keys are the credential itself.
func (a *account) Keys(ctx context.Context) (ekskubeconfig.Keys, error) {
	cfg, err := awsconfig.Load(ctx, a.files, a.spec.Region)
	if err != nil {
		return ekskubeconfig.Keys{}, err
	}
	keys, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return ekskubeconfig.Keys{}, fmt.Errorf("read the AWS credential: %w", err)
	}
	return ekskubeconfig.Keys{
		AccessKeyID:     keys.AccessKeyID,
		SecretAccessKey: keys.SecretAccessKey,
		SessionToken:    keys.SessionToken,
	}, nil
}
