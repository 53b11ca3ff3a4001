package provision

import (
	"regexp"
	"strings"

	"github.com/kubeopera/platform/shared/api"
)

var (
	uuidPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
	// arnPattern is partition, kind, path and name of an IAM principal. IAM
	// allows any printable character in a path; these are those of a name.
	arnPattern = regexp.MustCompile(`^arn:([a-z-]+):iam::[0-9]{12}:(role|user)/((?:[A-Za-z0-9_+=,.@-]+/)*)[A-Za-z0-9_+=,.@-]{1,64}$`)
)

// maxARNPath is IAM's limit of a path.
const maxARNPath = 512

func (c *checker) credentialID(id string) string {
	switch {
	case id == "":
		c.addf("credential_id", "is required: the UUID of a credential in auth-service")
	case !uuidPattern.MatchString(id):
		c.addf("credential_id", "must be the UUID of a credential in auth-service")
	}
	return strings.ToLower(id)
}

// principalARN is an IAM role or user of the region's partition.
func (c *checker) principalARN(arn, region string) string {
	if arn == "" {
		return ""
	}
	const field = "admin_principal_arn"
	partition, ok := PartitionOf(region)
	if !ok {
		partition = PartitionStandard // the region has its own problem
	}
	m := arnPattern.FindStringSubmatch(arn)
	switch {
	case m == nil && strings.Contains(arn, ":assumed-role/"):
		c.addf(field, "must be the ARN of an IAM role or user: this is a session's; give the ARN of its role, arn:%s:iam::<account>:role/<name>", partition)
	case m == nil:
		c.addf(field, "must be the ARN of an IAM role or user, such as arn:%s:iam::123456789012:role/admin", partition)
	case ok && m[1] != string(partition):
		c.addf(field, "must be of the region's partition, %s", partition)
	case len(m[3]) > maxARNPath:
		c.addf(field, "must have a path of at most %d characters", maxARNPath)
	case m[2] == "role" && strings.HasPrefix(m[3], "aws-service-role/"):
		c.addf(field, "must not be a service-linked role: EKS gives those no access")
	}
	return arn
}

// kubeconfigAuth may stay empty: the default depends on the credential's kind.
func (c *checker) kubeconfigAuth(auth api.KubeconfigAuth) api.KubeconfigAuth {
	switch auth {
	case "", api.KubeconfigAuthEmbedded, api.KubeconfigAuthExecOnly, api.KubeconfigAuthServiceAccount:
	default:
		c.addf("kubeconfig_auth", "must be %s, %s or %s",
			api.KubeconfigAuthEmbedded, api.KubeconfigAuthExecOnly, api.KubeconfigAuthServiceAccount)
	}
	return auth
}
