package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim/gitops"
)

const (
	// followInterval is how often new scaffolding runs are looked for.
	followInterval = 500 * time.Millisecond
	// followPause comes after a failure.
	followPause = 5 * time.Second
)

// GitOps is Target as a cluster that trees are applied to: with a node, and with
// Flux on it. Both start when it is asked for first.
func (s *Simulator) GitOps(ctx context.Context) (*gitops.Target, error) {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.target != nil {
		return s.target, nil
	}
	started := time.Now()
	tools, err := s.findGitOpsTools(ctx)
	if err != nil {
		return nil, err
	}
	target, err := gitops.Start(ctx, gitops.Config{
		ControlPlane: s.Target, Pods: s.pods, Tools: tools, Dir: filepath.Join(s.config.Dir, "target", "gitops"), Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	target.SetControllerArgs("--key-size=2048") // 4096 bits take up to half a minute on a busy machine
	if err := target.InstallFlux(ctx); err != nil {
		return nil, errors.Join(err, target.Stop(context.WithoutCancel(ctx)))
	}
	s.target = target
	s.onStop(target.Stop)
	s.log.InfoContext(ctx, "started", "part", "Flux on the EKS clusters", "seconds", time.Since(started).Round(10*time.Millisecond).Seconds())
	return target, nil
}

// findGitOpsTools finds the controllers, or builds them, which takes minutes.
func (s *Simulator) findGitOpsTools(ctx context.Context) (tools gitops.Tools, err error) {
	name := filepath.Join(s.config.Dir, "target", "tools.log")
	progress, err := os.Create(name)
	if err != nil {
		return tools, err
	}
	defer func() { err = errors.Join(err, progress.Close()) }()
	if tools, err = gitops.FindTools(ctx, s.config.Root, false, progress); err != nil {
		return tools, fmt.Errorf("%w\n%s", err, lastLines(name, 10))
	}
	return tools, nil
}

// Follow makes Flux apply an environment's folder from a repository's branch. It
// follows one environment at a time: all EKS clusters are the same one.
func (s *Simulator) Follow(ctx context.Context, repository *Repository, branch, environment string) error {
	target, err := s.GitOps(ctx)
	if err != nil {
		return err
	}
	return target.Sync(ctx, gitops.Source{
		URL: repository.URL(), Branch: branch, Path: "clusters/" + environment, CA: s.Git.CA(),
		Username: fluxUser, Password: repository.fluxToken.Reveal(),
	})
}

// followScaffolds stands in for host-cluster-controller, which bootstraps Flux for
// the environment that a scaffolding run makes: it follows the newest run of all.
func (s *Simulator) followScaffolds(ctx context.Context) error {
	followed := map[string]bool{}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		next := followInterval
		if err := s.followNew(ctx, followed); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "scaffolding run not followed", "error", err)
			next = followPause
		}
		pause.Reset(next)
	}
}

// followNew follows the runs that are not in followed yet, and puts them there.
func (s *Simulator) followNew(ctx context.Context, followed map[string]bool) error {
	jobs, err := s.Kubernetes.BatchV1().Jobs(RunNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: runcontract.LabelKind + "=" + string(runcontract.KindScaffold),
	})
	if err != nil {
		return err
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if job.Status.Active == 0 || followed[job.Name] {
			continue
		}
		if err := s.followScaffold(ctx, job); err != nil {
			return err
		}
		followed[job.Name] = true
	}
	return nil
}

// followScaffold follows a run's environment, if the run pushes one for Target.
func (s *Simulator) followScaffold(ctx context.Context, job *batchv1.Job) error {
	configMap, err := s.Kubernetes.CoreV1().ConfigMaps(RunNamespace).Get(ctx, job.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	spec, err := runcontract.ReadScaffoldSpec([]byte(configMap.Data[runcontract.SpecFile]))
	if err != nil || spec.Operation == api.OperationDryRun {
		return err
	}
	credential, err := s.Kubernetes.CoreV1().Secrets(RunNamespace).Get(ctx, runcontract.CredentialSecretName(spec.Kind, spec.ID), metav1.GetOptions{})
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(credential.Data[runcontract.CredentialKubeconfigFile])
	if err != nil {
		return err
	}
	if config.Host != s.Target.URL() {
		return nil
	}
	for _, r := range s.Repositories() {
		if spec.Repository.URL == r.URL() || spec.Repository.URL == r.SSHURL() {
			return s.Follow(ctx, r, spec.Repository.Branch, spec.Inputs.Environment)
		}
	}
	return nil
}
