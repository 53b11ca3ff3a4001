// Package awsconfig makes the AWS configuration of a run from the mounted
// credential files and finds out whose credential it is.
//
// The files are an AWS shared config file and a shared credentials file with one
// profile, which is used explicitly: neither the container's environment nor the
// node's instance role can take its place. A profile with a role assumes it from
// a second one, and its sessions are renewed for as long as that one's key is
// valid. Endpoints, proxies and CA bundles come from the process environment, as
// for every AWS tool; an endpoint for all services, AWS_ENDPOINT_URL, needs
// AWS_ENDPOINT_URL_STS beside it for a role (the SDK reads the former too late).
package awsconfig

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/kubeopera/platform/shared/runcontract"
)

// Files are the paths of a run's credential files.
type Files struct {
	Config      string
	Credentials string
}

// FilesIn are the credential files in the folder where the Secret is mounted.
func FilesIn(dir string) Files {
	return Files{
		Config:      filepath.Join(dir, runcontract.CredentialConfigFile),
		Credentials: filepath.Join(dir, runcontract.CredentialKeysFile),
	}
}

// Env is the environment that makes an AWS tool, Terraform among them, use the files.
func (f Files) Env() map[string]string {
	return map[string]string{
		"AWS_PROFILE":                 runcontract.CredentialProfile,
		"AWS_CONFIG_FILE":             f.Config,
		"AWS_SHARED_CREDENTIALS_FILE": f.Credentials,
		"AWS_EC2_METADATA_DISABLED":   "true",
	}
}

// Secrets lists the values in the files that must not be shown anywhere. The
// access key's id is no secret by itself, but it is nobody's business either.
func (f Files) Secrets() ([]string, error) {
	var found []string
	for _, path := range []string{f.Config, f.Credentials} {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the credential: %w", err)
		}
		found = append(found, secretsIn(data)...)
	}
	return found, nil
}

func secretsIn(data []byte) []string {
	var found []string
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), "=")
		if !ok {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "aws_access_key_id", "aws_secret_access_key", "aws_session_token", "external_id":
			found = append(found, strings.TrimSpace(value))
		}
	}
	return found
}

// callTimeout bounds one attempt of a call. The SDK has no bound of its own for an
// answer that does not come, and all of the runner's calls are small.
const callTimeout = 30 * time.Second

// expiryWindow is how long before its end a role's session is no longer used.
const expiryWindow = time.Minute

// Load reads the files. It does not talk to AWS: a role is assumed by the first
// call that needs it, whose error then has a *RefusedError inside if AWS refuses.
func Load(ctx context.Context, f Files, region string) (aws.Config, error) {
	for _, path := range []string{f.Config, f.Credentials} {
		// The SDK takes a missing file for an empty one.
		if _, err := os.Stat(path); err != nil {
			return aws.Config{}, fmt.Errorf("read the credential: %w", err)
		}
	}
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithSharedConfigFiles([]string{f.Config}),
		config.WithSharedCredentialsFiles([]string{f.Credentials}),
		config.WithSharedConfigProfile(runcontract.CredentialProfile),
		config.WithRegion(region),
		config.WithEC2IMDSClientEnableState(imds.ClientDisabled),
		config.WithCredentialsCacheOptions(func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = expiryWindow }),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(callTimeout)),
	)
	if err != nil {
		return aws.Config{}, fmt.Errorf("read the AWS configuration: %w", err)
	}
	if role := roleOf(cfg); role != "" {
		cfg.Credentials = assuming{role: role, sessions: cfg.Credentials}
	}
	return cfg, nil
}
