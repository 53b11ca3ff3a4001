package main

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/kubeopera/platform/provisioner/internal/terraformenv"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// The tags of a request that steer its run.
const (
	tagSeconds        = "seconds"         // how long the apply takes
	tagDestroySeconds = "destroy_seconds" // how long the destroy takes
	tagFail           = "fail"            // there with any value: the apply fails, at its end
	tagAWS            = "aws"             // there with any value: the AWS provider is in it, without a resource, so that a destroy looks for what a cluster has made by itself
)

// ca is a certificate for the kubeconfigs. Its key was thrown away.
//
//go:embed ca.pem
var ca []byte

// render is the environment of an EKS cluster with resources that Terraform has
// built in: a network, a cluster, and a node for each worker. Backend and
// variables are the real ones.
func render(e terraformenv.Environment) (map[string]string, error) {
	if e.Topology != api.TopologyEKS {
		return nil, fmt.Errorf("render environment: only %s has a minimal form", api.TopologyEKS)
	}
	files, err := terraformenv.Render(e)
	if err != nil {
		return nil, err
	}
	seconds, err := duration(e.Tags, tagSeconds)
	if err != nil {
		return nil, err
	}
	destroySeconds, err := duration(e.Tags, tagDestroySeconds)
	if err != nil {
		return nil, err
	}
	end := "true"
	if _, fail := e.Tags[tagFail]; fail {
		end = "false"
	}
	if _, aws := e.Tags[tagAWS]; !aws {
		files[terraformenv.FileProviders] = "terraform {\n  required_version = \">= 1.11\"\n}\n"
	}
	// Of text only a DNS label and what is ours gets in.
	files[terraformenv.FileMain] = fmt.Sprintf(`resource "terraform_data" "network" {
  input = var.%[1]s
}

resource "terraform_data" "cluster" {
  # A change of these makes the cluster anew: provisioners run only then.
  triggers_replace = [%[3]d, "%[4]s"]
  input = {
    name            = "%[2]s"
    destroy_seconds = %[5]d
  }

  provisioner "local-exec" {
    command = "sleep %[3]d; %[4]s"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "sleep ${self.input.destroy_seconds}"
  }
  depends_on = [terraform_data.network]
}

resource "terraform_data" "node" {
  count = %[6]d
  input = terraform_data.cluster.id
}
`, runcontract.VariablePrincipal, e.Name, seconds, end, destroySeconds, e.WorkerCount)
	files[terraformenv.FileOutputs] = fmt.Sprintf(`output "%s" {
  value = terraform_data.cluster.output.name
}

output "%s" {
  value = "https://%s.invalid"
}

output "%s" {
  value = "%s"
}
`, runcontract.OutputClusterName, runcontract.OutputClusterEndpoint, e.Name, runcontract.OutputClusterCACertificate, base64.StdEncoding.EncodeToString(ca))
	return files, nil
}

// duration reads a tag of whole seconds; without it, it is none.
func duration(tags map[string]string, tag string) (int, error) {
	value, ok := tags[tag]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > 3600 {
		return 0, fmt.Errorf("render environment: tag %s must be whole seconds, at most 3600", tag)
	}
	return n, nil
}
