# An EKS cluster with one managed node group. The order of creation, and in
# reverse of destruction, matters:
#
#   roles and their policies, log group -> cluster -> vpc-cni and kube-proxy,
#   access entries -> nodes -> CoreDNS

# Made before the cluster, else EKS makes it: without retention, without tags,
# and outside of Terraform.
resource "aws_cloudwatch_log_group" "cluster" {
  name              = "/aws/eks/${var.cluster_name}/cluster"
  retention_in_days = var.log_retention_days

  tags = var.tags
}

resource "aws_eks_cluster" "this" {
  name     = var.cluster_name
  version  = var.kubernetes_version
  role_arn = aws_iam_role.cluster.arn

  enabled_cluster_log_types = var.cluster_log_types

  # The addons below, in versions that EKS manages, take the place of those that
  # EKS would install once and then forget.
  bootstrap_self_managed_addons = false

  access_config {
    authentication_mode = "API"

    # Whoever happens to run Terraform is no administrator by that alone;
    # access.tf names those who are.
    bootstrap_cluster_creator_admin_permissions = false
  }

  vpc_config {
    subnet_ids              = var.subnet_ids
    endpoint_private_access = true
    endpoint_public_access  = var.endpoint_public_access
    public_access_cidrs     = var.endpoint_public_access ? var.public_access_cidrs : null
  }

  # Extended support costs six times as much and would start by itself.
  upgrade_policy {
    support_type = "STANDARD"
  }

  tags = var.tags

  lifecycle {
    # Both have a meaning at creation only, and a change would replace the cluster.
    ignore_changes = [
      access_config[0].bootstrap_cluster_creator_admin_permissions,
      bootstrap_self_managed_addons,
    ]
  }

  depends_on = [
    aws_cloudwatch_log_group.cluster,
    # EKS removes its network interfaces and security group with these rights.
    aws_iam_role_policy_attachment.cluster,
  ]
}

# The security group of the cluster lets nodes and control plane talk; clients in
# the VPC and in networks joined to it need to be let in.
resource "aws_vpc_security_group_ingress_rule" "api" {
  for_each = toset(var.private_access_cidrs)

  security_group_id = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
  description       = "Kubernetes API"
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443

  tags = var.tags
}

# A node without a CNI never becomes ready, so the network comes before the nodes.
resource "aws_eks_addon" "before_nodes" {
  for_each = toset(["kube-proxy", "vpc-cni"])

  cluster_name = aws_eks_cluster.this.name
  addon_name   = each.key

  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "OVERWRITE"

  tags = var.tags
}

# CoreDNS needs nodes to run on: without any, the addon is degraded until it times out.
resource "aws_eks_addon" "coredns" {
  cluster_name = aws_eks_cluster.this.name
  addon_name   = "coredns"

  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "OVERWRITE"

  tags = var.tags

  depends_on = [aws_eks_node_group.workers]
}
