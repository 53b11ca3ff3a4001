locals {
  # By which the cloud controller finds its machines; it wants exactly one such tag.
  cluster_tag = { "kubernetes.io/cluster/${var.cluster_name}" = "owned" }
}

resource "aws_instance" "control_plane" {
  count = var.control_plane_count

  ami           = var.control_plane_ami_id != null ? var.control_plane_ami_id : data.aws_ami.control_plane[0].id
  instance_type = var.control_plane_instance_type

  subnet_id              = element(var.control_plane_subnet_ids, count.index)
  vpc_security_group_ids = [var.node_security_group_id, var.control_plane_security_group_id]
  iam_instance_profile   = aws_iam_instance_profile.control_plane.name

  user_data        = var.enable_self_bootstrap_control_plane ? null : local.placeholder_user_data
  user_data_base64 = var.enable_self_bootstrap_control_plane ? local.control_plane_user_data[count.index] : null

  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
    # One hop is the machine itself. What of the cluster needs the role, the cloud
    # controller and the storage controller, shares its network.
    http_put_response_hop_limit = 1
    # Tag keys with a slash, which Kubernetes uses, are not allowed in the
    # metadata; an account may have switched the tags on for all instances.
    instance_metadata_tags = "disabled"
  }

  private_dns_name_options {
    hostname_type = "ip-name"
  }

  root_block_device {
    volume_type           = "gp3"
    volume_size           = var.control_plane_disk_size_gib
    encrypted             = true
    delete_on_termination = true

    tags = merge(var.tags, { Name = "${var.cluster_name}-control-plane-${count.index}" })
  }

  tags = merge(var.tags, local.cluster_tag, {
    Name                = "${var.cluster_name}-control-plane-${count.index}"
    "kubeopera.io/node" = "control-plane-${count.index}"
  })

  lifecycle {
    # Of use at the first boot only, while a change would stop all control planes at
    # once, or replace them, and with them the cluster's data.
    ignore_changes = [ami, private_dns_name_options, user_data, user_data_base64]

    precondition {
      condition     = data.aws_ec2_instance_type.control_plane.default_vcpus >= 2 && data.aws_ec2_instance_type.control_plane.memory_size >= 1700
      error_message = "control_plane_instance_type must have at least 2 processors and 1700 MB of memory, which kubeadm wants; ${var.control_plane_instance_type} has ${data.aws_ec2_instance_type.control_plane.default_vcpus} and ${data.aws_ec2_instance_type.control_plane.memory_size} MB."
    }

    # Four characters are three bytes.
    precondition {
      condition     = length(local.control_plane_user_data[count.index]) <= floor(local.user_data_limit / 3) * 4
      error_message = "The control planes' user data exceeds ${local.user_data_limit} bytes, which AWS does not take: shorten api_server_cert_sans."
    }
  }

  # A node reads and reports with these rights from its first minute on.
  depends_on = [aws_iam_role_policy.control_plane, aws_iam_role_policy_attachment.ebs_csi, aws_iam_role_policy.shell]
}

resource "aws_eip_association" "control_plane" {
  count = var.control_plane_elastic_ip != null ? 1 : 0

  allocation_id = var.control_plane_elastic_ip.allocation_id
  instance_id   = aws_instance.control_plane[0].id
}
