resource "aws_launch_template" "workers" {
  name        = "${var.cluster_name}-workers"
  description = "Workers of the cluster ${var.cluster_name}."

  image_id      = var.worker_ami_id != null ? var.worker_ami_id : data.aws_ami.worker[0].id
  instance_type = var.worker_instance_type
  user_data     = local.worker_user_data

  vpc_security_group_ids = [var.node_security_group_id]

  update_default_version = true

  iam_instance_profile {
    name = aws_iam_instance_profile.worker.name
  }

  # The root disk of every image of Canonical.
  block_device_mappings {
    device_name = "/dev/sda1"

    ebs {
      volume_type           = "gp3"
      volume_size           = var.worker_disk_size_gib
      encrypted             = true
      delete_on_termination = true
    }
  }

  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
    # One hop is the machine itself: a pod that could take the node's role could
    # read the join token.
    http_put_response_hop_limit = 1
    instance_metadata_tags      = "disabled"
  }

  private_dns_name_options {
    hostname_type = "ip-name"
  }

  dynamic "tag_specifications" {
    for_each = toset(["volume", "network-interface"])

    content {
      resource_type = tag_specifications.key
      tags          = merge(var.tags, { Name = "${var.cluster_name}-worker" })
    }
  }

  tags = var.tags

  lifecycle {
    precondition {
      condition     = length(local.worker_user_data) <= floor(local.user_data_limit / 3) * 4
      error_message = "The workers' user data exceeds ${local.user_data_limit} bytes, which AWS does not take."
    }
  }
}

resource "aws_autoscaling_group" "workers" {
  name = "${var.cluster_name}-workers"

  min_size         = var.worker_min
  max_size         = var.worker_max
  desired_capacity = var.worker_count

  vpc_zone_identifier = var.worker_subnet_ids

  # New workers are of the newest version; those that exist stay as they are.
  launch_template {
    id      = aws_launch_template.workers.id
    version = aws_launch_template.workers.latest_version
  }

  # That machines are in service says nothing about nodes, and a group that was
  # waited for in vain would be left behind half made.
  wait_for_capacity_timeout = "0"

  dynamic "tag" {
    for_each = merge(var.tags, local.cluster_tag, {
      Name                = "${var.cluster_name}-worker"
      "kubeopera.io/node" = "worker"
    })

    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = true
    }
  }

  lifecycle {
    # An autoscaler's decision must outlive the next apply. AWS itself moves the
    # number when it is outside of a new range.
    ignore_changes = [desired_capacity]
  }

  depends_on = [aws_iam_role_policy.worker, aws_iam_role_policy.shell]
}
