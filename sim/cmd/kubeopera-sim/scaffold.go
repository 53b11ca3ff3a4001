package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// fluxTimeout is how long Flux may take to apply a tree.
const fluxTimeout = 5 * time.Minute

var kustomizations = schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}

// scaffold makes the tree of the cluster that a run has built, and shows its
// commits and what Flux makes of them.
func scaffold(ctx context.Context, env environment, here running, cluster api.Provision) error {
	scaffolder, err := client.NewScaffolder(client.Config{BaseURL: here.Scaffolder.URL, APIKey: here.Scaffolder.Key})
	if err != nil {
		return err
	}
	name, domain := cluster.Name, cluster.Name+".example.com"
	run, err := scaffolder.StartScaffold(ctx, api.ScaffoldRequest{
		Environment: name, Domain: domain, Region: cluster.Region, Email: "ops@" + domain,
		Target:   api.ScaffoldTarget{ProvisionID: cluster.ID},
		Registry: api.ScaffoldRegistry{Server: "registry." + domain, Username: "robot", Password: rand.Text()},
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "\nPOST %s/api/v1/scaffolds\n202 Accepted: the tree of %s, by the id of the run that built it, run %s\n\n", here.Scaffolder.URL, name, run.ID)
	progress := newProgress(env.stdout)
	show := progress.status(name)
	run, err = scaffolder.Wait(ctx, run.ID, func(run api.Scaffold) { show(run.RunStatus) })
	if err != nil {
		return err
	}
	if run.Status != api.StatusSucceeded || run.Commits == nil {
		printLogTail(ctx, env.stdout, "scaffolds", run.ID, scaffolder.Logs)
		return fmt.Errorf("the scaffold of %s ended %s (%s): %s", name, run.Status, run.ErrorCode, run.Message)
	}
	if err := awaitFlux(ctx, progress, here.Target, run.Commits.Complete); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "\n%s: what was pushed to %s, the secrets sealed for the certificate %s...\n", name, run.GitOpsPath, run.CertificateFingerprint[:16])
	if err := showCommits(ctx, env, here.Trees, name); err != nil {
		return err
	}
	for _, show := range [][]string{
		{"get", "kustomizations", "--namespace", "flux-system"},
		{"get", "sealedsecrets,secrets", "--namespace", "kubeopera-data"},
		{"get", "ingresses", "--all-namespaces"},
	} {
		if err := useKubectl(ctx, env, here, here.Target, "", show...); err != nil {
			return err
		}
	}
	return nil
}

// showCommits shows the commits of an environment.
func showCommits(ctx context.Context, env environment, repository, environment string) error {
	args := []string{"--git-dir", repository, "--no-pager", "log", "--format=%h  %s  (%an)", "--shortstat", "--grep=^Scaffold " + environment + ":", "main"}
	fmt.Fprintf(env.stdout, "$ git --git-dir %s log --shortstat main\n", repository)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Stdout, cmd.Stderr = env.stdout, env.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git log of the GitOps repository: %w", err)
	}
	return nil
}

// awaitFlux shows how Flux applies a commit, layer by layer, until it is through.
func awaitFlux(ctx context.Context, progress *progress, kubeconfig, commit string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cluster, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, fluxTimeout, fmt.Errorf("commit %s not applied by Flux within %s", commit, fluxTimeout))
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	shown := map[string]bool{}
	for {
		list, err := cluster.Resource(kustomizations).Namespace("flux-system").List(ctx, metav1.ListOptions{})
		if err == nil {
			waiting := false
			for _, k := range list.Items {
				switch {
				case !applied(k, commit):
					waiting = true
				case !shown[k.GetName()]:
					shown[k.GetName()] = true
					progress.print("Flux has applied " + k.GetName())
				}
			}
			if !waiting && len(list.Items) > 1 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// applied tells whether a Kustomization is ready at a commit.
func applied(k unstructured.Unstructured, commit string) bool {
	revision, _, _ := unstructured.NestedString(k.Object, "status", "lastAppliedRevision")
	conditions, _, _ := unstructured.NestedSlice(k.Object, "status", "conditions")
	return strings.HasSuffix(revision, commit) && slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == "Ready" && condition["status"] == "True"
	})
}
