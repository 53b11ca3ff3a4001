package terraformenv

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/kubeopera/platform/shared/runcontract"
)

// Names of a cluster of self-made nodes.
const (
	// kubeadmNameLimit is the longest cluster name that the modules take.
	kubeadmNameLimit = 63
	apiPort          = 6443
)

// Parameters of a cluster of self-made nodes, below its prefix. What is behind them
// passes between nodes and runner, never through Terraform, which only creates them.
const (
	ParameterAdminKubeconfig = "admin_kubeconfig"
	ParameterCACertHash      = "ca_cert_hash"
	ParameterClusterState    = "cluster_state"
	ParameterJoinToken       = "join_token"
	ParameterAPIEndpoint     = "k8s_api_endpoint"
	ParameterCertificateKey  = "k8s_certificate_key"
)

// ParameterPrefix is what the names of an environment's parameters begin with.
func ParameterPrefix(environment string) string { return "/kubeopera/" + environment }

// parameters returns an environment's parameters: full names by the short ones.
func (e Environment) parameters() map[string]string {
	names := []string{
		ParameterAdminKubeconfig, ParameterCACertHash, ParameterClusterState, ParameterJoinToken, ParameterAPIEndpoint,
	}
	if e.highlyAvailable() {
		names = append(names, ParameterCertificateKey)
	}
	for i := range e.ControlPlaneCount {
		names = append(names, fmt.Sprintf("bootstrap_status/control-plane-%d", i), fmt.Sprintf("control_plane_joined/%d", i))
	}
	full := make(map[string]string, len(names))
	for _, name := range names {
		full[name] = ParameterPrefix(e.Name) + "/" + name
	}
	return full
}

// highlyAvailable says whether the cluster has a load balancer before its API.
func (e Environment) highlyAvailable() bool { return e.ControlPlaneCount > 1 }

// vanillaMain is the root of a cluster whose nodes make it by themselves with
// kubeadm: a VPC, the machines, and the parameters through which they talk. With
// several control planes a load balancer inside the VPC is the API's endpoint, and a
// public one stands beside it if asked for; a single control plane has an elastic IP
// for that. Their addresses are known before the machines are, and thus can be in
// the API's certificate.
func vanillaMain(e Environment, tags map[string]string) *hclwrite.File {
	file := hclwrite.NewEmptyFile()
	body := file.Body()

	locals := body.AppendNewBlock("locals", nil).Body()
	locals.SetAttributeValue("cluster_name", cty.StringVal(awsName(e.Name, kubeadmNameLimit)))
	locals.AppendNewline()
	comment(locals, "On every resource, on machines and on their disks.")
	locals.SetAttributeRaw("tags", stringMap(tags))

	body.AppendNewline()
	vanillaVPC(body, e)
	body.AppendNewline()
	vanillaSecurity(body, e)
	body.AppendNewline()
	vanillaParameters(body, e)
	if e.highlyAvailable() {
		body.AppendNewline()
		internalBalancer().write(body, e)
	}
	switch {
	case e.PublicAccess && e.highlyAvailable():
		body.AppendNewline()
		publicBalancer().write(body, e)
	case e.PublicAccess:
		body.AppendNewline()
		elasticIP(body)
	}
	body.AppendNewline()
	vanillaCompute(body, e)
	return file
}

func vanillaVPC(body *hclwrite.Body, e Environment) {
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
}

func vanillaSecurity(body *hclwrite.Body, e Environment) {
	// The kubeconfig for use inside the VPC must be of use there.
	inside := []string{e.VPCCIDR}
	if !e.PublicAccess && len(e.AllowedCIDRs) > 0 {
		inside = e.AllowedCIDRs
	}
	security := moduleBlock(body, "security")
	security.SetAttributeTraversal("name", reference("local", "cluster_name"))
	security.SetAttributeTraversal("cluster_name", reference("local", "cluster_name"))
	security.SetAttributeTraversal("vpc_id", reference("module", "vpc", "vpc_id"))
	security.AppendNewline()
	security.SetAttributeValue("load_balancer", cty.BoolVal(e.highlyAvailable()))
	security.SetAttributeValue("api_internal_cidrs", stringList(inside))
	security.SetAttributeValue("api_public", cty.BoolVal(e.PublicAccess))
	if e.PublicAccess {
		security.SetAttributeValue("api_public_cidrs", stringList(e.AllowedCIDRs))
	}
	security.AppendNewline()
	security.SetAttributeTraversal("tags", reference("local", "tags"))
}

// vanillaParameters creates the parameters empty. Their values are write-only: they
// are neither in the state nor in a plan, and what nodes have written is neither
// read nor overwritten.
func vanillaParameters(body *hclwrite.Body, e Environment) {
	comment(body, "Nodes talk through these. Only tags may ever change: any other change, and any other")
	comment(body, "value_wo_version, would overwrite what the nodes have written.")
	parameter := body.AppendNewBlock("resource", []string{"aws_ssm_parameter", "bootstrap"}).Body()
	parameter.SetAttributeRaw("for_each", stringMap(e.parameters()))
	parameter.AppendNewline()
	parameter.SetAttributeTraversal("name", reference("each", "value"))
	parameter.SetAttributeValue("type", cty.StringVal("SecureString"))
	parameter.SetAttributeValue("tier", cty.StringVal("Standard"))
	parameter.AppendNewline()
	parameter.SetAttributeValue("value_wo", cty.StringVal("PENDING"))
	parameter.SetAttributeValue("value_wo_version", cty.NumberIntVal(1))
	parameter.AppendNewline()
	parameter.SetAttributeTraversal("tags", reference("local", "tags"))
}

// elasticIP is the public address of a single control plane. It stays when the
// machine is stopped and started again.
func elasticIP(body *hclwrite.Body) {
	comment(body, "The API's public address, in its certificate.")
	eip := body.AppendNewBlock("resource", []string{"aws_eip", "api"}).Body()
	eip.SetAttributeValue("domain", cty.StringVal("vpc"))
	eip.AppendNewline()
	eip.SetAttributeTraversal("tags", reference("local", "tags"))
	eip.AppendNewline()
	comment(eip, "It needs the VPC's way to the internet.")
	eip.SetAttributeRaw("depends_on", tuple(hclwrite.TokensForTraversal(reference("module", "vpc"))))
}

func vanillaCompute(body *hclwrite.Body, e Environment) {
	compute := moduleBlock(body, "compute")
	compute.SetAttributeTraversal("cluster_name", reference("local", "cluster_name"))
	compute.SetAttributeValue("kubernetes_version", cty.StringVal(e.KubernetesVersion))
	compute.SetAttributeTraversal("parameters", reference("aws_ssm_parameter", "bootstrap"))
	compute.AppendNewline()
	subnets := "private_subnet_ids"
	if e.PublicAccess && !e.highlyAvailable() {
		subnets = "public_subnet_ids"
	}
	compute.SetAttributeTraversal("control_plane_subnet_ids", reference("module", "vpc", subnets))
	compute.SetAttributeTraversal("worker_subnet_ids", reference("module", "vpc", "private_subnet_ids"))
	compute.SetAttributeTraversal("node_security_group_id", reference("module", "security", "node_security_group_id"))
	compute.SetAttributeTraversal("control_plane_security_group_id", reference("module", "security", "control_plane_security_group_id"))
	compute.AppendNewline()
	compute.SetAttributeValue("enable_self_bootstrap_control_plane", cty.True)
	compute.SetAttributeValue("control_plane_count", cty.NumberIntVal(int64(e.ControlPlaneCount)))
	compute.SetAttributeValue("control_plane_instance_type", cty.StringVal(e.ControlPlaneInstanceType))
	if e.highlyAvailable() {
		compute.SetAttributeTraversal("control_plane_endpoint_override", internalBalancer().dnsName())
	}
	switch {
	case e.PublicAccess && e.highlyAvailable():
		compute.SetAttributeRaw("api_server_cert_sans", tuple(hclwrite.TokensForTraversal(publicBalancer().dnsName())))
	case e.PublicAccess:
		compute.AppendNewline()
		compute.SetAttributeRaw("control_plane_elastic_ip", referenceMap(map[string]hcl.Traversal{
			"allocation_id": reference("aws_eip", "api", "allocation_id"),
			"public_ip":     reference("aws_eip", "api", "public_ip"),
		}))
	}
	compute.AppendNewline()
	compute.SetAttributeValue("worker_instance_type", cty.StringVal(e.WorkerInstanceType))
	compute.SetAttributeValue("worker_count", cty.NumberIntVal(int64(e.WorkerCount)))
	compute.SetAttributeValue("worker_min", cty.NumberIntVal(int64(e.WorkerMin)))
	compute.SetAttributeValue("worker_max", cty.NumberIntVal(int64(e.WorkerMax)))
	if e.PodCIDR != "" {
		compute.AppendNewline()
		compute.SetAttributeValue("pod_cidr", cty.StringVal(e.PodCIDR))
	}
	compute.AppendNewline()
	compute.SetAttributeTraversal("tags", reference("local", "tags"))
}

// vanillaOutputs is what the runner needs to wait for the nodes and to make both
// kubeconfigs of the published one.
func vanillaOutputs(e Environment) *hclwrite.File {
	file := hclwrite.NewEmptyFile()
	body := file.Body()

	output := func(name, description string) *hclwrite.Body {
		block := body.AppendNewBlock("output", []string{name}).Body()
		block.SetAttributeValue("description", cty.StringVal(description))
		return block
	}
	output(runcontract.OutputAPIEndpointInternal, "URL of the Kubernetes API for nodes and the VPC.").
		SetAttributeTraversal("value", reference("module", "compute", "api_endpoint"))
	body.AppendNewline()
	public := output(runcontract.OutputAPIEndpointPublic, "URL of the Kubernetes API for the outside; empty if there is none.")
	switch {
	case e.PublicAccess && e.highlyAvailable():
		public.SetAttributeRaw("value", apiURL(publicBalancer().dnsName()))
	case e.PublicAccess:
		public.SetAttributeRaw("value", apiURL(reference("aws_eip", "api", "public_ip")))
	default:
		public.SetAttributeValue("value", cty.StringVal(""))
	}
	body.AppendNewline()
	output(runcontract.OutputParameterPrefix, "What the names of the parameters begin with through which nodes talk.").
		SetAttributeValue("value", cty.StringVal(ParameterPrefix(e.Name)))
	body.AppendNewline()
	output(runcontract.OutputControlPlaneCount, "Number of control planes.").
		SetAttributeValue("value", cty.NumberIntVal(int64(e.ControlPlaneCount)))
	body.AppendNewline()
	output(runcontract.OutputControlPlaneInstanceIDs, "Instances of the control planes, by index; what another instance reported is out of date.").
		SetAttributeTraversal("value", reference("module", "compute", "control_plane_instance_ids"))
	return file
}
