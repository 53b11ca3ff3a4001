# The plan fails here, in seconds, when the region has no such instance type.
data "aws_ec2_instance_type" "node" {
  instance_type = var.node_instance_type
}

locals {
  node_ami_type = coalesce(
    var.node_ami_type,
    contains(data.aws_ec2_instance_type.node.supported_architectures, "arm64") ? "AL2023_ARM_64_STANDARD" : "AL2023_x86_64_STANDARD",
  )
}

# How many nodes there are now. An autoscaler's decision must outlive the next
# apply, and ignore_changes cannot do it: Terraform would send the old number
# together with a new minimum or maximum, and EKS refuses a number outside of its
# own range. So the group keeps the number that it has, moved into the range.
# The lists, unlike a reference to the cluster, can be read before it exists.
data "aws_eks_clusters" "this" {}

data "aws_eks_node_groups" "this" {
  count = contains(data.aws_eks_clusters.this.names, var.cluster_name) ? 1 : 0

  cluster_name = var.cluster_name
}

data "aws_eks_node_group" "workers" {
  for_each = toset([
    for name in flatten(data.aws_eks_node_groups.this[*].names) : name
    if startswith(name, local.node_group_prefix)
  ])

  cluster_name    = var.cluster_name
  node_group_name = each.key
}

locals {
  node_group_prefix = "workers-"

  # More than one while a group is being replaced, none at first.
  current_node_counts = [for group in data.aws_eks_node_group.workers : group.scaling_config[0].desired_size]
  wanted_node_count   = length(local.current_node_counts) > 0 ? max(local.current_node_counts...) : var.node_count
  node_count          = min(max(local.wanted_node_count, var.node_min), var.node_max)
}

# No image, no user data, no security groups: EKS adds its own to what is here.
resource "aws_launch_template" "nodes" {
  name        = "${var.cluster_name}-nodes"
  description = "Nodes of the EKS cluster ${var.cluster_name}."

  # In the template and not in the node group, so that a change rolls the nodes
  # instead of replacing the group.
  instance_type = var.node_instance_type

  update_default_version = true

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_type           = "gp3"
      volume_size           = var.node_disk_size_gib
      encrypted             = true
      delete_on_termination = true
    }
  }

  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
    # One hop is the node itself: pods that do not share its network cannot take
    # its role.
    http_put_response_hop_limit = 1
    # Tag keys with a slash, which Kubernetes uses, are not allowed in the
    # metadata; an account may have switched the tags on for all instances.
    instance_metadata_tags = "disabled"
  }

  dynamic "tag_specifications" {
    for_each = toset(["instance", "volume", "network-interface"])

    content {
      resource_type = tag_specifications.key
      tags          = merge(var.tags, { Name = "${var.cluster_name}-node" })
    }
  }

  tags = var.tags
}

resource "aws_eks_node_group" "workers" {
  cluster_name           = aws_eks_cluster.this.name
  node_group_name_prefix = local.node_group_prefix
  node_role_arn          = aws_iam_role.nodes.arn
  subnet_ids             = var.subnet_ids
  version                = aws_eks_cluster.this.version
  ami_type               = local.node_ami_type

  launch_template {
    id      = aws_launch_template.nodes.id
    version = aws_launch_template.nodes.latest_version
  }

  scaling_config {
    desired_size = local.node_count
    min_size     = var.node_min
    max_size     = var.node_max
  }

  update_config {
    max_unavailable_percentage = 33
  }

  node_repair_config {
    enabled = true
  }

  tags = var.tags

  lifecycle {
    # Another processor needs another group: the new one is there before the old
    # one is drained, hence the name's prefix.
    create_before_destroy = true
  }

  depends_on = [
    aws_eks_addon.before_nodes,
    # Nodes join, and clean up behind them, with these rights.
    aws_iam_role_policy_attachment.nodes,
  ]
}
