package leftovers

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Tags of the platform.
const (
	tagEnvironment = "kubeopera.io/environment" // on all that Terraform makes
	tagRetain      = "kubeopera.io/retain"      // "true": outlives the cluster
)

// Tags of the cluster's parts. Sources: Kubernetes' cloud provider for AWS (tags.go),
// the EBS CSI driver's docs/tagging.md, the AWS Load Balancer Controller's tracking
// provider, the Amazon VPC CNI (awsutils), EKS.
const (
	tagClusterPrefix   = "kubernetes.io/cluster/" // and the name; the value below
	valueOwned         = "owned"
	tagBalancerCluster = "elbv2.k8s.aws/cluster"
	tagCNICluster      = "cluster.k8s.amazonaws.com/name"
	tagEKSCluster      = "aws:eks:cluster-name" // on the security group that EKS makes
)

// isLeftover says whether a thing with these tags was made by the cluster's
// controllers. Terraform's own things may have the cluster's tag too.
func (s Scope) isLeftover(tags map[string]string) bool {
	if _, terraforms := tags[tagEnvironment]; terraforms {
		return false
	}
	return tags[tagClusterPrefix+s.Cluster] == valueOwned || tags[tagBalancerCluster] == s.Cluster || tags[tagCNICluster] == s.Cluster
}

func ec2Tags(list []types.Tag) map[string]string {
	return tagMap(list, func(t types.Tag) (key, value *string) { return t.Key, t.Value })
}

// tagMap makes a map of a service's own kind of tags.
func tagMap[T any](list []T, read func(T) (key, value *string)) map[string]string {
	tags := make(map[string]string, len(list))
	for _, t := range list {
		key, value := read(t)
		tags[aws.ToString(key)] = aws.ToString(value)
	}
	return tags
}
