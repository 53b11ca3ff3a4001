package scaffold

import (
	"slices"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/kubeconfig"
	"github.com/kubeopera/platform/shared/runservice"
)

// again takes the secrets of a retry: all that the run held in clear, and nothing
// else, since its inputs stay.
func again(in Inputs, secrets api.ScaffoldSecrets) (api.ScaffoldSecrets, *kubeconfig.Exec, error) {
	sent := present(secrets)
	var missing []string
	for _, name := range in.Inline {
		if !slices.Contains(sent, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return secrets, nil, &SecretsRequiredError{Fields: missing}
	}
	c := &checker{}
	for _, name := range sent {
		if !slices.Contains(in.Inline, name) {
			c.addf(name, "was not part of the run's request, so that it is of no use; leave it out, or start a new run")
		}
	}
	if len(c.problems) > 0 {
		return secrets, nil, &runservice.InvalidError{Problems: c.problems}
	}
	if secrets.Token != "" {
		if err := cloudcred.CheckToken(secrets.Token); err != nil {
			c.addf("token", "%s", err)
		}
	}
	if secrets.SSHKey != "" {
		secrets.SSHKey = c.privateKey("ssh_key", secrets.SSHKey)
	}
	if secrets.SigningKey != "" {
		secrets.SigningKey = c.privateKey("signing_key", secrets.SigningKey)
	}
	secrets.RegistryPassword = c.registryPassword("registry_password", secrets.RegistryPassword)
	var exec *kubeconfig.Exec
	if secrets.Kubeconfig != "" {
		var target Target
		target, exec = c.kubeconfig("kubeconfig", Target{CredentialID: in.Target.CredentialID}, secrets.Kubeconfig)
		if target.Server != "" && (target.Server != in.Target.Server || !sameCluster(target, in.Target)) {
			c.addf("kubeconfig", "must be one of the run's cluster, whose API server is %s", in.Target.Server)
		}
	}
	if len(c.problems) > 0 {
		return secrets, nil, &runservice.InvalidError{Problems: c.problems}
	}
	return secrets, exec, nil
}

// sameCluster says whether two targets get their tokens in the same way.
func sameCluster(a, b Target) bool {
	if a.EKS == nil || b.EKS == nil {
		return a.EKS == b.EKS
	}
	return *a.EKS == *b.EKS
}
