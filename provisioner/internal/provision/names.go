package provision

import (
	"slices"
	"strings"

	"github.com/kubeopera/platform/shared/runservice"
)

// The longest names that the rules of Kubernetes and S3 leave room for.
const (
	maxLabel       = 63
	maxBucketName  = 63
	maxEnvironment = maxBucketName - len(stateBucketPrefix)
	// stateBucketPrefix and the environment's name make the name of the bucket
	// that holds an environment's Terraform state.
	stateBucketPrefix = "kubeopera-terraform-state-"
)

// reservedBucketSuffixes may not end a bucket's name: S3 keeps them for access
// point aliases, Object Lambda, directory buckets, table buckets and buckets in
// an account's own regional namespace. (.mrap is no DNS label anyway, and the
// reserved prefixes xn--, sthree- and amzn-s3-demo- cannot come before ours.)
var reservedBucketSuffixes = []string{"-s3alias", "--ol-s3", "--x-s3", "--table-s3", "-an"}

// name is a DNS label, so that it fits a Kubernetes label and any AWS name.
func (c *checker) name(name string) string {
	switch {
	case name == "":
		c.addf("name", "is required: 1 to %d %s", maxLabel, runservice.LabelRule)
	case len(name) > maxLabel || !runservice.IsLabel(name):
		c.addf("name", "must be 1 to %d %s", maxLabel, runservice.LabelRule)
	}
	return name
}

// environment names a directory, a state bucket and a Kubernetes label. It
// defaults to the cluster's name, which may be too long for a bucket.
func (c *checker) environment(environment, name string) string {
	subject := ""
	if environment == "" {
		environment = name
		subject = "defaults to name, which does not fit: it "
		if !runservice.IsLabel(name) {
			return environment // said about name already
		}
	}
	if len(environment) > maxEnvironment || !runservice.IsLabel(environment) {
		c.addf("terraform_environment", "%smust be 1 to %d %s: the state bucket is %s<terraform_environment>, and a bucket name has at most %d characters",
			subject, maxEnvironment, runservice.LabelRule, stateBucketPrefix, maxBucketName)
	}
	for _, suffix := range reservedBucketSuffixes {
		if strings.HasSuffix(environment, suffix) {
			c.addf("terraform_environment", "%smust not end in %s: S3 reserves that suffix of a bucket's name", subject, suffix)
		}
	}
	if slices.Contains(c.limits.ReservedEnvironments, environment) {
		c.addf("terraform_environment", "%smust not be one of %s: those environments are kept by hand, and a run would be applied over their state",
			subject, strings.Join(c.limits.ReservedEnvironments, ", "))
	}
	return environment
}
