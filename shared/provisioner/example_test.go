package provisioner_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner"
)

const environment = `
apiVersion: holodeck.nvidia.com/v1alpha1
kind: Environment
metadata:
  name: lab
spec:
  auth: {username: ubuntu, privateKey: ~/.ssh/id_ed25519}
  nvidiaDriver: {install: true}
  containerRuntime: {install: true, name: containerd}
  kubernetes: {install: true, release: {version: v1.36.3}}
  cluster:
    controlPlane: {count: 1, dedicated: true}
    workers: {count: 1, labels: {pool: gpu}}
`

// nodes are two machines: one is reached by its address, one through AWS Systems
// Manager.
func nodes() []provisioner.NodeInfo {
	return []provisioner.NodeInfo{
		{
			Name: "control-plane-0", Role: "control-plane", PublicIP: "192.0.2.10",
			HostKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILkI1CDpvl+sBCKhowdJuTwfrHzSOCnJEKZpqFII5oNs"},
		},
		{
			Name: "worker-0", Role: "worker", InstanceID: "i-0123456789abcdef0",
			Transport: &provisioner.SSMTransport{InstanceID: "i-0123456789abcdef0", Region: "eu-west-1"},
		},
	}
}

// What a cluster's machines would execute, in which order. No machine is connected to.
func ExampleNewPlan() {
	env, err := v1alpha1.Decode([]byte(environment))
	if err != nil {
		log.Fatal(err)
	}
	plan, err := provisioner.NewPlan(context.Background(), env, nodes(), "")
	if err != nil {
		log.Fatal(err)
	}
	for _, stage := range plan.Stages {
		for _, script := range stage.Scripts {
			fmt.Println(stage.Phase, stage.Nodes, script.Name)
		}
	}
	// Output:
	// preparing [control-plane-0 worker-0] driver
	// preparing [control-plane-0 worker-0] container runtime
	// preparing [control-plane-0 worker-0] kubernetes prerequisites
	// initializing [control-plane-0] kubernetes init
	// joining [worker-0] kubernetes join worker
	// configuring [control-plane-0 worker-0] label
}

// A cluster is made, or made complete: the same call again goes on where an earlier
// one stopped.
func ExampleClusterProvisioner() {
	ctx := context.Background()
	env, err := v1alpha1.Decode([]byte(environment))
	if err != nil {
		log.Fatal(err)
	}
	cluster := provisioner.NewClusterProvisioner(logger.NewLogger(), env.Spec.PrivateKey, env.Spec.Username, env)
	cluster.OnProgress = func(p provisioner.NodeProgress) { fmt.Println(p.Node, p.Phase, p.Step, p.Message) }
	machines := nodes()
	result, err := cluster.ProvisionClusterContext(ctx, machines)
	if result == nil {
		log.Fatal(err) // the environment or the nodes are refused
	}
	for _, node := range result.Nodes {
		if wrongKey, ok := errors.AsType[*provisioner.HostKeyError](node.Err); ok {
			fmt.Println(node.Name, "is not the machine that it was:", wrongKey)
		}
	}
	if err == nil {
		err = os.WriteFile("lab.kubeconfig", []byte(cluster.Kubeconfig().Reveal()), 0o600)
	}
	if err != nil {
		log.Fatal(err) // a NodeError for each node that failed
	}
	health, err := cluster.GetClusterHealthContext(ctx, machines[0])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(health.Healthy, health.Message)
	if _, err := cluster.ResetCluster(ctx, machines); err != nil { // and it is gone
		log.Fatal(err)
	}
}

// One machine, through a bastion.
func ExampleProvisioner() {
	env, err := v1alpha1.Decode([]byte(`
apiVersion: holodeck.nvidia.com/v1alpha1
kind: Environment
metadata: {name: one}
spec:
  auth: {username: ubuntu, privateKey: ~/.ssh/id_ed25519}
  instance: {hostUrl: 10.0.0.5}
  containerRuntime: {install: true, name: docker}
`))
	if err != nil {
		log.Fatal(err)
	}
	p, err := provisioner.New(logger.NewLogger(), env.Spec.PrivateKey, env.Spec.Username, env.Spec.HostUrl,
		provisioner.WithConnection(provisioner.Connection{Bastion: &provisioner.Bastion{Host: "bastion.example.com"}}))
	if err != nil {
		log.Fatal(err)
	}
	components, err := p.Run(*env)
	if err := errors.Join(err, p.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(components.Runtime.Version)
}
