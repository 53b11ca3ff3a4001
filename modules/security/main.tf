# Security groups of a cluster on EC2 machines. Every rule is a resource of its own:
# groups that name each other could not be created, nor destroyed, with rules inside.
#
#   nodes           every machine; the one group with the cluster's tag
#   control_plane   control planes, beside nodes
#   api_internal    the load balancer inside the VPC, if there is one
#   api_public      the public load balancer, if there is one
#
# A network load balancer can be given a group only when it is created, and with
# client addresses not preserved its targets see nothing but its own: who may reach
# the API is decided at the load balancer.

locals {
  # The cloud controller opens ports for Services in the one group of a machine that
  # has this tag, and gives up where it finds two.
  cluster_tag = { "kubernetes.io/cluster/${var.cluster_name}" = "owned" }

  api_port = 6443

  # Who may reach the control planes themselves: where there is no load balancer,
  # those who may reach the API.
  direct_cidrs = var.load_balancer ? toset([]) : toset(concat(
    var.api_internal_cidrs, var.api_public ? var.api_public_cidrs : [],
  ))

  public_load_balancer = var.load_balancer && var.api_public

  # From one node to all others.
  node_rules = {
    kubelet      = { name = "kubelet", protocol = "tcp", from = 10250, to = 10250 }
    calico_vxlan = { name = "Calico VXLAN", protocol = "udp", from = 4789, to = 4789 }
    calico_typha = { name = "Calico Typha", protocol = "tcp", from = 5473, to = 5473 }
  }

  # From networks outside the cluster, if any.
  node_port_rules = {
    tcp = { name = "NodePorts", protocol = "tcp", from = 30000, to = 32767 }
    udp = { name = "NodePorts", protocol = "udp", from = 30000, to = 32767 }
  }
}

resource "aws_security_group" "nodes" {
  name        = "${var.name}-nodes"
  description = "Nodes of the cluster ${var.cluster_name}"
  vpc_id      = var.vpc_id

  tags = merge(var.tags, local.cluster_tag, { Name = "${var.name}-nodes" })
}

resource "aws_vpc_security_group_ingress_rule" "nodes" {
  for_each = local.node_rules

  security_group_id            = aws_security_group.nodes.id
  referenced_security_group_id = aws_security_group.nodes.id
  ip_protocol                  = each.value.protocol
  from_port                    = each.value.from
  to_port                      = each.value.to

  tags = merge(var.tags, { Name = each.value.name })
}

resource "aws_vpc_security_group_ingress_rule" "node_ports" {
  for_each = merge([
    for cidr in var.node_port_cidrs : { for key, rule in local.node_port_rules : "${key} ${cidr}" => merge(rule, { cidr = cidr }) }
  ]...)

  security_group_id = aws_security_group.nodes.id
  cidr_ipv4         = each.value.cidr
  ip_protocol       = each.value.protocol
  from_port         = each.value.from
  to_port           = each.value.to

  tags = merge(var.tags, { Name = each.value.name })
}

resource "aws_vpc_security_group_egress_rule" "nodes" {
  security_group_id = aws_security_group.nodes.id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"

  tags = merge(var.tags, { Name = "Packages, images and AWS" })
}

resource "aws_security_group" "control_plane" {
  name        = "${var.name}-control-plane"
  description = "Control planes of the cluster ${var.cluster_name}"
  vpc_id      = var.vpc_id

  tags = merge(var.tags, { Name = "${var.name}-control-plane" })
}

resource "aws_vpc_security_group_ingress_rule" "etcd" {
  security_group_id            = aws_security_group.control_plane.id
  referenced_security_group_id = aws_security_group.control_plane.id
  ip_protocol                  = "tcp"
  from_port                    = 2379
  to_port                      = 2380

  tags = merge(var.tags, { Name = "etcd" })
}

# From all nodes, control planes among them: what joins talks to its peers' API
# servers before a load balancer knows of it.
resource "aws_vpc_security_group_ingress_rule" "api_from_nodes" {
  security_group_id            = aws_security_group.control_plane.id
  referenced_security_group_id = aws_security_group.nodes.id
  ip_protocol                  = "tcp"
  from_port                    = local.api_port
  to_port                      = local.api_port

  tags = merge(var.tags, { Name = "Kubernetes API" })
}

resource "aws_vpc_security_group_ingress_rule" "api_direct" {
  for_each = local.direct_cidrs

  security_group_id = aws_security_group.control_plane.id
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = local.api_port
  to_port           = local.api_port

  tags = merge(var.tags, { Name = "Kubernetes API" })
}

resource "aws_security_group" "api_internal" {
  count = var.load_balancer ? 1 : 0

  name        = "${var.name}-api-internal"
  description = "Load balancer in the VPC for the API of the cluster ${var.cluster_name}"
  vpc_id      = var.vpc_id

  tags = merge(var.tags, { Name = "${var.name}-api-internal" })
}

resource "aws_vpc_security_group_ingress_rule" "api_internal_from_nodes" {
  count = var.load_balancer ? 1 : 0

  security_group_id            = aws_security_group.api_internal[0].id
  referenced_security_group_id = aws_security_group.nodes.id
  ip_protocol                  = "tcp"
  from_port                    = local.api_port
  to_port                      = local.api_port

  tags = merge(var.tags, { Name = "Kubernetes API" })
}

resource "aws_vpc_security_group_ingress_rule" "api_internal" {
  for_each = var.load_balancer ? toset(var.api_internal_cidrs) : toset([])

  security_group_id = aws_security_group.api_internal[0].id
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = local.api_port
  to_port           = local.api_port

  tags = merge(var.tags, { Name = "Kubernetes API" })
}

resource "aws_security_group" "api_public" {
  count = local.public_load_balancer ? 1 : 0

  name        = "${var.name}-api-public"
  description = "Public load balancer for the API of the cluster ${var.cluster_name}"
  vpc_id      = var.vpc_id

  tags = merge(var.tags, { Name = "${var.name}-api-public" })
}

resource "aws_vpc_security_group_ingress_rule" "api_public" {
  for_each = local.public_load_balancer ? toset(var.api_public_cidrs) : toset([])

  security_group_id = aws_security_group.api_public[0].id
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = local.api_port
  to_port           = local.api_port

  tags = merge(var.tags, { Name = "Kubernetes API" })
}

# Between each load balancer and its targets, both ways: health checks take it too.
locals {
  load_balancer_groups = merge(
    var.load_balancer ? { internal = aws_security_group.api_internal[0].id } : {},
    local.public_load_balancer ? { public = aws_security_group.api_public[0].id } : {},
  )
}

resource "aws_vpc_security_group_egress_rule" "load_balancer" {
  for_each = local.load_balancer_groups

  security_group_id            = each.value
  referenced_security_group_id = aws_security_group.control_plane.id
  ip_protocol                  = "tcp"
  from_port                    = local.api_port
  to_port                      = local.api_port

  tags = merge(var.tags, { Name = "Kubernetes API" })
}

resource "aws_vpc_security_group_ingress_rule" "api_from_load_balancer" {
  for_each = local.load_balancer_groups

  security_group_id            = aws_security_group.control_plane.id
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = local.api_port
  to_port                      = local.api_port

  tags = merge(var.tags, { Name = "Kubernetes API" })
}
