package terraformenv

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/kubeopera/platform/shared/runcontract"
)

// clusterNameLimit is the longest name that EKS takes.
const clusterNameLimit = 100

// eksMain is the root of an EKS cluster: a VPC of its own and the cluster in its
// private subnets.
func eksMain(e Environment, tags map[string]string) *hclwrite.File {
	name := awsName(e.Name, clusterNameLimit)
	file := hclwrite.NewEmptyFile()
	body := file.Body()

	locals := body.AppendNewBlock("locals", nil).Body()
	locals.SetAttributeValue("cluster_name", cty.StringVal(name))
	locals.AppendNewline()
	comment(locals, "On every resource, on nodes and on their disks.")
	locals.SetAttributeRaw("tags", stringMap(tags))

	body.AppendNewline()
	vpc := moduleBlock(body, "vpc")
	vpc.SetAttributeTraversal("name", reference("local", "cluster_name"))
	vpc.SetAttributeTraversal("cluster_name", reference("local", "cluster_name"))
	vpc.AppendNewline()
	vpc.SetAttributeValue("cidr_block", cty.StringVal(e.VPCCIDR))
	if len(e.AvailabilityZones) > 0 {
		vpc.SetAttributeValue("availability_zones", stringList(e.AvailabilityZones))
	}
	vpc.AppendNewline()
	vpc.SetAttributeTraversal("tags", reference("local", "tags"))

	body.AppendNewline()
	eks := moduleBlock(body, "eks")
	eks.SetAttributeTraversal("cluster_name", reference("local", "cluster_name"))
	eks.SetAttributeValue("kubernetes_version", cty.StringVal(e.KubernetesVersion))
	eks.SetAttributeTraversal("subnet_ids", reference("module", "vpc", "private_subnet_ids"))
	eks.AppendNewline()
	eks.SetAttributeTraversal(runcontract.VariablePrincipal, reference("var", runcontract.VariablePrincipal))
	if e.AdminPrincipalARN != "" {
		eks.SetAttributeValue("admin_principal_arn", cty.StringVal(e.AdminPrincipalARN))
	}
	eks.AppendNewline()
	eks.SetAttributeValue("endpoint_public_access", cty.BoolVal(e.PublicAccess))
	if e.PublicAccess {
		eks.SetAttributeValue("public_access_cidrs", stringList(e.AllowedCIDRs))
	} else {
		// Nodes reach the API in any case; this lets others in.
		from := e.AllowedCIDRs
		if len(from) == 0 {
			from = []string{e.VPCCIDR}
		}
		eks.SetAttributeValue("private_access_cidrs", stringList(from))
	}
	eks.AppendNewline()
	eks.SetAttributeValue("node_instance_type", cty.StringVal(e.WorkerInstanceType))
	eks.SetAttributeValue("node_count", cty.NumberIntVal(int64(e.WorkerCount)))
	eks.SetAttributeValue("node_min", cty.NumberIntVal(int64(e.WorkerMin)))
	eks.SetAttributeValue("node_max", cty.NumberIntVal(int64(e.WorkerMax)))
	eks.AppendNewline()
	eks.SetAttributeTraversal("tags", reference("local", "tags"))
	return file
}

// moduleBlock appends a call of one of the platform's modules, which lie two
// folders above every environment.
func moduleBlock(body *hclwrite.Body, name string) *hclwrite.Body {
	module := body.AppendNewBlock("module", []string{name}).Body()
	module.SetAttributeValue("source", cty.StringVal("../../modules/"+name))
	module.AppendNewline()
	return module
}

func eksVariables() *hclwrite.File {
	file := hclwrite.NewEmptyFile()
	variable := file.Body().AppendNewBlock("variable", []string{runcontract.VariablePrincipal}).Body()
	variable.SetAttributeValue("description",
		cty.StringVal("ARN of the IAM role or user whose credential Terraform runs with; it administers the cluster."))
	variable.SetAttributeTraversal("type", reference("string"))
	variable.SetAttributeValue("nullable", cty.False)
	return file
}

// eksOutputs is what the runner makes a kubeconfig from.
func eksOutputs() *hclwrite.File {
	file := hclwrite.NewEmptyFile()
	body := file.Body()
	for i, output := range []struct{ name, description string }{
		{runcontract.OutputClusterName, "Name of the EKS cluster."},
		{runcontract.OutputClusterEndpoint, "URL of the Kubernetes API."},
		{runcontract.OutputClusterCACertificate, "Certificate of the CA of the Kubernetes API: PEM, in base64."},
	} {
		if i > 0 {
			body.AppendNewline()
		}
		block := body.AppendNewBlock("output", []string{output.name}).Body()
		block.SetAttributeValue("description", cty.StringVal(output.description))
		block.SetAttributeTraversal("value", reference("module", "eks", output.name))
	}
	return file
}
