// Package launch turns a scaffolding run into what is created in Kubernetes for
// it: the run spec and the Job. Rendering is pure: the same run and configuration
// give the same launch, so a launch that was cut short is repaired by doing it
// again.
package launch

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/kubeopera/platform/scaffolder/internal/kube"
	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// Config is the service's own part of every run.
type Config struct {
	Namespace   string
	ManagedBy   string // the service's name, for labels
	CAConfigMap string // empty: Git servers are publicly trusted
	AuthorName  string // of commits
	AuthorEmail string
	// Timeout is the runner's own deadline, MergeTimeout what each branch gets on
	// top until it is merged, GracePeriod the time to stop in, StartDeadline the
	// time in which a pod has to start.
	Timeout       time.Duration
	MergeTimeout  time.Duration
	GracePeriod   time.Duration
	StartDeadline time.Duration
	// SealedSecretsTimeout is how long sealed-secrets may take to be Available.
	SealedSecretsTimeout time.Duration
	PollInterval         time.Duration
	// Env points git and the AWS SDK elsewhere: at emulators and proxies. No
	// request can set it.
	Env map[string]string
}

// Renderer renders runs with a configuration.
func Renderer(cfg Config) runs.Renderer {
	return func(run runs.Run) (runs.Launch, error) {
		in, err := scaffold.ReadInputs(run.Inputs)
		if err != nil {
			return runs.Launch{}, err
		}
		spec, err := json.MarshalIndent(spec(cfg, run, in), "", "  ")
		if err != nil {
			return runs.Launch{}, fmt.Errorf("write the run spec: %w", err)
		}
		return runs.Launch{
			Files: map[string]string{runcontract.SpecFile: string(spec) + "\n"},
			Job: kube.ScaffoldJob(kube.Spec{
				ID:            string(run.ID),
				Environment:   run.Environment,
				Namespace:     cfg.Namespace,
				ManagedBy:     cfg.ManagedBy,
				CAConfigMap:   cfg.CAConfigMap,
				Timeout:       in.Timeout(cfg.Timeout, cfg.MergeTimeout),
				GracePeriod:   cfg.GracePeriod,
				StartDeadline: cfg.StartDeadline,
			}),
		}, nil
	}
}

func spec(cfg Config, run runs.Run, in scaffold.Inputs) runcontract.ScaffoldSpec {
	s := runcontract.ScaffoldSpec{
		Version:   runcontract.SpecVersion,
		ID:        string(run.ID),
		Kind:      runcontract.KindScaffold,
		Operation: run.Operation,
		Inputs:    in.Tree,
		Repository: runcontract.Repository{
			URL:         in.Repository.URL,
			Branch:      in.Repository.Branch,
			Mode:        in.Mode,
			Auth:        in.Repository.Auth,
			Username:    in.Repository.Username,
			CA:          cfg.CAConfigMap != "",
			AuthorName:  cfg.AuthorName,
			AuthorEmail: cfg.AuthorEmail,
			Signed:      in.Signed,
		},
		Target:                      runcontract.Target{EKS: in.Target.EKS, Certificate: in.Target.Certificate},
		AllowDeletion:               in.AllowDeletion,
		TimeoutSeconds:              int(in.Timeout(cfg.Timeout, cfg.MergeTimeout).Seconds()),
		GraceSeconds:                int(cfg.GracePeriod.Seconds()),
		SealedSecretsTimeoutSeconds: int(cfg.SealedSecretsTimeout.Seconds()),
		PollIntervalSeconds:         int(cfg.PollInterval.Seconds()),
		Env:                         cfg.Env,
	}
	if in.Mode == api.PushPullRequest {
		s.Repository.MergeBranch = in.MergeBranch()
		s.MergeTimeoutSeconds = int(cfg.MergeTimeout.Seconds())
	}
	if in.Rotate {
		s.Rotation = in.RotationOf
		if s.Rotation == "" {
			s.Rotation = string(run.ID)
		}
	}
	return s
}
