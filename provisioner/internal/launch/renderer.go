// Package launch turns a provisioning run into what is created in Kubernetes
// for it: the rendered Terraform environment, the run spec, and the Job.
//
// It is where the domain meets the two adapters that each know one half,
// terraformenv and kube. Rendering is pure: the same run and configuration give
// the same launch, so a launch that was cut short is repaired by doing it again.
package launch

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/kubeopera/platform/provisioner/internal/kube"
	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/provisioner/internal/terraformenv"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// Config is the service's own part of every run.
type Config struct {
	Namespace string
	ManagedBy string // the service's name, for labels
	Modules   kube.Modules
	// Timeout is the runner's own deadline, GracePeriod the time that Terraform
	// gets to stop in, StartDeadline the time in which a pod has to start.
	Timeout       time.Duration
	GracePeriod   time.Duration
	StartDeadline time.Duration
	// ControlPlaneTimeout and ControlPlanePollInterval are for nodes that
	// bootstrap themselves.
	ControlPlaneTimeout      time.Duration
	ControlPlanePollInterval time.Duration
	// KubeconfigExec is the command of the exec plugin in EKS kubeconfigs.
	KubeconfigExec string
	// Env and BackendConfig point Terraform and the AWS SDK elsewhere: at
	// emulators and proxies. No request can set them.
	Env           map[string]string
	BackendConfig map[string]string
	// Environment renders the files of a Terraform environment; nil:
	// terraformenv.Render. Another one is for tests.
	Environment func(terraformenv.Environment) (map[string]string, error)
}

// Renderer renders runs with a configuration.
func Renderer(cfg Config) runs.Renderer {
	if cfg.Environment == nil {
		cfg.Environment = terraformenv.Render
	}
	return func(run runs.Run) (runs.Launch, error) {
		in, err := provision.ReadInputs(run.Inputs)
		if err != nil {
			return runs.Launch{}, err
		}
		files := map[string]string{}
		modules := &cfg.Modules
		if in.Topology == api.TopologyExistingMachines {
			modules = nil
		} else {
			rendered, err := cfg.Environment(environment(in))
			if err != nil {
				return runs.Launch{}, fmt.Errorf("render the Terraform environment: %w", err)
			}
			maps.Copy(files, rendered)
		}
		spec, err := json.MarshalIndent(spec(cfg, run, in), "", "  ")
		if err != nil {
			return runs.Launch{}, fmt.Errorf("write the run spec: %w", err)
		}
		files[runcontract.SpecFile] = string(spec) + "\n"
		return runs.Launch{Files: files, Job: kube.TerraformJob(kube.Spec{
			ID:            string(run.ID),
			Environment:   run.Environment,
			Namespace:     cfg.Namespace,
			ManagedBy:     cfg.ManagedBy,
			Modules:       modules,
			RescuedRun:    in.RescuedRun,
			Timeout:       cfg.Timeout,
			GracePeriod:   cfg.GracePeriod,
			StartDeadline: cfg.StartDeadline,
		})}, nil
	}
}

func environment(in provision.Inputs) terraformenv.Environment {
	return terraformenv.Environment{
		Name:                     in.Environment,
		StateBucket:              in.StateBucket(),
		StateKey:                 provision.StateKey,
		ClusterName:              in.Name,
		Topology:                 in.Topology,
		Region:                   in.Region,
		KubernetesVersion:        in.KubernetesVersion,
		VPCCIDR:                  in.VPCCIDR,
		AvailabilityZones:        in.AvailabilityZones,
		ControlPlaneCount:        in.ControlPlaneCount,
		ControlPlaneInstanceType: in.ControlPlaneInstanceType,
		PodCIDR:                  in.PodCIDR,
		WorkerCount:              in.WorkerCount,
		WorkerMin:                in.WorkerMin,
		WorkerMax:                in.WorkerMax,
		WorkerInstanceType:       in.WorkerInstanceType,
		PublicAccess:             in.APIAccess == api.APIAccessPublic,
		AllowedCIDRs:             in.APIAllowedCIDRs,
		AdminPrincipalARN:        in.AdminPrincipalARN,
		Tags:                     in.Tags,
	}
}

func spec(cfg Config, run runs.Run, in provision.Inputs) runcontract.Spec {
	tags := maps.Clone(in.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[terraformenv.TagEnvironment] = in.Environment
	tags[terraformenv.TagManagedBy] = cfg.ManagedBy
	s := runcontract.Spec{
		Version:                    runcontract.SpecVersion,
		ID:                         string(run.ID),
		Kind:                       runcontract.KindProvision,
		Operation:                  run.Operation,
		Name:                       run.Name,
		Environment:                run.Environment,
		Topology:                   in.Topology,
		Region:                     in.Region,
		KubeconfigAuth:             in.KubeconfigAuth,
		KubeconfigExec:             cfg.KubeconfigExec,
		AllowReplacement:           in.AllowReplacement,
		LockID:                     in.LockID,
		EndedRuns:                  in.EndedRuns,
		RescuedRun:                 in.RescuedRun,
		Tags:                       tags,
		PollIntervalSeconds:        int(cfg.ControlPlanePollInterval.Seconds()),
		ControlPlaneTimeoutSeconds: int(cfg.ControlPlaneTimeout.Seconds()),
		TimeoutSeconds:             int(cfg.Timeout.Seconds()),
		GraceSeconds:               int(cfg.GracePeriod.Seconds()),
		Env:                        cfg.Env,
	}
	if in.Topology == api.TopologyExistingMachines {
		s.KubernetesVersion, s.PodCIDR, s.ControlPlaneEndpoint = in.KubernetesVersion, in.PodCIDR, in.ControlPlaneEndpoint
		for _, m := range in.Machines {
			s.Machines = append(s.Machines, runcontract.Machine{Name: nodeName(m), Machine: m})
		}
		return s
	}
	if in.Topology == api.TopologyEKS { // of a kubeadm cluster's nodes, EKS knows nothing
		s.KubernetesVersion = in.KubernetesVersion
	}
	s.State = runcontract.State{Bucket: in.StateBucket(), Key: provision.StateKey, BackendConfig: cfg.BackendConfig}
	return s
}

// notInName is what a node's name may not have in its middle.
var notInName = regexp.MustCompile(`[^a-z0-9-]+`)

// nodeName names a machine as a node: the same whatever other machines there are.
// A long name is shortened with a hash.
func nodeName(m api.Machine) string {
	identity := cmp.Or(m.InstanceID, m.Address)
	if m.Port != 0 && m.Port != 22 && m.InstanceID == "" {
		identity = fmt.Sprintf("%s-%d", identity, m.Port)
	}
	name := string(m.Role) + "-" + strings.Trim(notInName.ReplaceAllString(strings.ToLower(identity), "-"), "-")
	if len(name) <= 63 {
		return name
	}
	sum := sha256.Sum256([]byte(identity))
	return strings.TrimRight(name[:54], "-") + "-" + hex.EncodeToString(sum[:4])
}
