package kubeconfig

import (
	"regexp"
	"slices"

	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/shared/redact"
)

// Exec is the EKS cluster whose token an exec plugin gets.
type Exec struct {
	Cluster string
	Region  string
	// AccessKeyID and the rest are the AWS key in its environment, empty if it is
	// somewhere else.
	AccessKeyID     string
	SecretAccessKey redact.Secret
	SessionToken    redact.Secret
}

var (
	clusterName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)
	regionName  = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`)
)

// publishedExec reads a plugin in one of the forms that tfrunner's ekskubeconfig
// writes. Any other is a problem: a program of somebody's choice, arguments with
// a meaning that nobody checked, or an environment that changes what runs.
func publishedExec(plugin *api.ExecConfig) (*Exec, string) {
	var region, cluster string
	a := plugin.Args
	switch {
	case plugin.Command == "aws" && len(a) == 8 && slices.Equal(without(a, 1, 5), []string{"--region", "eks", "get-token", "--cluster-name", "--output", "json"}):
		region, cluster = a[1], a[5]
	case plugin.Command == "eks-token-helper" && len(a) == 4 && slices.Equal(without(a, 1, 3), []string{"--region", "--cluster-name"}):
		region, cluster = a[1], a[3]
	default:
		return nil, "exec is not one of the commands that the platform publishes"
	}
	if !regionName.MatchString(region) || !clusterName.MatchString(cluster) {
		return nil, "exec has a region or cluster name that AWS does not have"
	}
	if plugin.APIVersion != "client.authentication.k8s.io/v1beta1" && plugin.APIVersion != "client.authentication.k8s.io/v1" {
		return nil, "exec has an unknown apiVersion"
	}
	if plugin.ProvideClusterInfo || plugin.InteractiveMode == api.AlwaysExecInteractiveMode {
		return nil, "exec may not ask for cluster information or input"
	}
	out := &Exec{Cluster: cluster, Region: region}
	seen := make(map[string]bool)
	for _, v := range plugin.Env {
		switch v.Name {
		case "AWS_ACCESS_KEY_ID":
			out.AccessKeyID = v.Value
		case "AWS_SECRET_ACCESS_KEY":
			out.SecretAccessKey = redact.Secret(v.Value)
		case "AWS_SESSION_TOKEN":
			out.SessionToken = redact.Secret(v.Value)
		case "AWS_STS_REGIONAL_ENDPOINTS":
			if v.Value != "regional" {
				return nil, "exec sets AWS_STS_REGIONAL_ENDPOINTS to something else than regional"
			}
		default:
			return nil, "exec sets an environment variable that the platform does not publish"
		}
		if seen[v.Name] {
			return nil, "exec sets an environment variable twice"
		}
		seen[v.Name] = true
	}
	return out, ""
}

// without is args but for those at the indices i and j.
func without(args []string, i, j int) []string {
	return slices.Concat(args[:i], args[i+1:j], args[j+1:])
}
