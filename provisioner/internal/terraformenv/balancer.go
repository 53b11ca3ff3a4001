package terraformenv

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// balancerNameLimit leaves room for what is put around a name: AWS takes 32
// characters for load balancers and target groups, and none that begin with
// "internal-".
const balancerNameLimit = 32 - len("k8s-") - len("-int")

// balancer is one of the load balancers before the API.
type balancer struct {
	resource string // name of its resources
	suffix   string // of its name in AWS
	comment  string
	internal bool
	subnets  string // output of the VPC
	group    string // output of the security groups
}

func internalBalancer() balancer {
	return balancer{
		resource: "api_internal", suffix: "-int", internal: true, subnets: "private_subnet_ids", group: "api_internal_security_group_id",
		comment: "The API's endpoint for nodes and the VPC. Its name is in certificates: it is for the cluster's life.",
	}
}

func publicBalancer() balancer {
	return balancer{
		resource: "api_public", suffix: "-pub", subnets: "public_subnet_ids", group: "api_public_security_group_id",
		comment: "The API for the outside. Nodes do not use it.",
	}
}

// dnsName is the name by which the load balancer is reached.
func (b balancer) dnsName() hcl.Traversal { return reference("aws_lb", b.resource, "dns_name") }

// write puts a network load balancer before all control planes.
func (b balancer) write(body *hclwrite.Body, e Environment) {
	name := cty.StringVal("k8s-" + awsName(e.Name, balancerNameLimit) + b.suffix)

	comment(body, b.comment)
	lb := body.AppendNewBlock("resource", []string{"aws_lb", b.resource}).Body()
	lb.SetAttributeValue("name", name)
	lb.SetAttributeValue("load_balancer_type", cty.StringVal("network"))
	lb.SetAttributeValue("internal", cty.BoolVal(b.internal))
	lb.AppendNewline()
	lb.SetAttributeTraversal("subnets", reference("module", "vpc", b.subnets))
	lb.SetAttributeRaw("security_groups", tuple(hclwrite.TokensForTraversal(reference("module", "security", b.group))))
	lb.AppendNewline()
	comment(lb, "Else a zone without a healthy control plane would have no API.")
	lb.SetAttributeValue("enable_cross_zone_load_balancing", cty.True)
	lb.AppendNewline()
	lb.SetAttributeTraversal("tags", reference("local", "tags"))

	body.AppendNewline()
	group := body.AppendNewBlock("resource", []string{"aws_lb_target_group", b.resource}).Body()
	group.SetAttributeValue("name", name)
	group.SetAttributeTraversal("vpc_id", reference("module", "vpc", "vpc_id"))
	group.SetAttributeValue("target_type", cty.StringVal("instance"))
	group.SetAttributeValue("protocol", cty.StringVal("TCP"))
	group.SetAttributeValue("port", cty.NumberIntVal(apiPort))
	group.SetAttributeValue("deregistration_delay", cty.NumberIntVal(60))
	group.AppendNewline()
	comment(group, "A control plane that is led to itself would wait for an answer from another address.")
	group.SetAttributeValue("preserve_client_ip", cty.False)
	group.AppendNewline()
	check := group.AppendNewBlock("health_check", nil).Body()
	check.SetAttributeValue("protocol", cty.StringVal("HTTPS"))
	check.SetAttributeValue("path", cty.StringVal("/readyz"))
	check.SetAttributeValue("matcher", cty.StringVal("200"))
	check.SetAttributeValue("interval", cty.NumberIntVal(10))
	check.SetAttributeValue("healthy_threshold", cty.NumberIntVal(2))
	check.SetAttributeValue("unhealthy_threshold", cty.NumberIntVal(2))
	group.AppendNewline()
	group.SetAttributeTraversal("tags", reference("local", "tags"))

	body.AppendNewline()
	listener := body.AppendNewBlock("resource", []string{"aws_lb_listener", b.resource}).Body()
	listener.SetAttributeTraversal("load_balancer_arn", reference("aws_lb", b.resource, "arn"))
	listener.SetAttributeValue("protocol", cty.StringVal("TCP"))
	listener.SetAttributeValue("port", cty.NumberIntVal(apiPort))
	listener.AppendNewline()
	action := listener.AppendNewBlock("default_action", nil).Body()
	action.SetAttributeValue("type", cty.StringVal("forward"))
	action.SetAttributeTraversal("target_group_arn", reference("aws_lb_target_group", b.resource, "arn"))
	listener.AppendNewline()
	listener.SetAttributeTraversal("tags", reference("local", "tags"))

	body.AppendNewline()
	target := body.AppendNewBlock("resource", []string{"aws_lb_target_group_attachment", b.resource}).Body()
	target.SetAttributeValue("count", cty.NumberIntVal(int64(e.ControlPlaneCount)))
	target.AppendNewline()
	target.SetAttributeTraversal("target_group_arn", reference("aws_lb_target_group", b.resource, "arn"))
	target.SetAttributeRaw("target_id", element(
		reference("module", "compute", "control_plane_instance_ids"), reference("count", "index"),
	))
}
