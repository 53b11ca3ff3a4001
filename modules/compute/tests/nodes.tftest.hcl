# Plans against a mock of the provider: no account, no network.

mock_provider "aws" {
  mock_data "aws_ec2_instance_type" {
    defaults = {
      supported_architectures = ["x86_64"]
      default_vcpus           = 2
      memory_size             = 4096
    }
  }

  mock_data "aws_partition" {
    defaults = {
      partition  = "aws"
      dns_suffix = "amazonaws.com"
    }
  }

  mock_data "aws_caller_identity" {
    defaults = {
      account_id = "111122223333"
    }
  }
}

variables {
  cluster_name                    = "test"
  kubernetes_version              = "1.36.3"
  control_plane_subnet_ids        = ["subnet-1", "subnet-2", "subnet-3"]
  worker_subnet_ids               = ["subnet-1", "subnet-2", "subnet-3"]
  node_security_group_id          = "sg-1"
  control_plane_security_group_id = "sg-2"
  control_plane_instance_type     = "t3.medium"
  worker_instance_type            = "t3.large"
  worker_count                    = 2
  worker_min                      = 1
  worker_max                      = 4

  parameters = {
    for name in [
      "admin_kubeconfig", "ca_cert_hash", "cluster_state", "join_token", "k8s_api_endpoint", "k8s_certificate_key",
      "bootstrap_status/control-plane-0", "bootstrap_status/control-plane-1", "bootstrap_status/control-plane-2",
      "bootstrap_status/control-plane-3", "bootstrap_status/control-plane-4",
      "control_plane_joined/0", "control_plane_joined/1", "control_plane_joined/2", "control_plane_joined/3", "control_plane_joined/4",
    ] : name => { name = "/kubeopera/test/${name}" }
  }
}

run "leaves_control_planes_alone_by_default" {
  command = plan

  assert {
    condition     = aws_instance.control_plane[0].user_data == "#!/bin/bash\n# Placeholder: this control plane is set up from outside.\n"
    error_message = "The placeholder is not, byte by byte, what it was."
  }
}

run "bootstraps_one_control_plane" {
  command = plan

  variables {
    enable_self_bootstrap_control_plane = true
    control_plane_elastic_ip            = { allocation_id = "eipalloc-1", public_ip = "203.0.113.9" }
  }

  assert {
    condition     = aws_instance.control_plane[0].user_data_base64 == local.control_plane_user_data[0]
    error_message = "The control plane does not have its user data."
  }

  assert {
    condition     = local.control_plane_settings[0].KUBEOPERA_ENDPOINT_HOST == "" && local.control_plane_settings[0].KUBEOPERA_CERT_SANS == "203.0.113.9"
    error_message = "The elastic IP is not in the certificate, or something else than the node's own address is the endpoint."
  }

  assert {
    condition     = length(aws_eip_association.control_plane) == 1
    error_message = "The elastic IP is not the control plane's."
  }
}

run "bootstraps_five_control_planes" {
  command = plan

  variables {
    enable_self_bootstrap_control_plane = true
    control_plane_count                 = 5
    control_plane_endpoint_override     = "K8s-Test-0123456789abcdef.elb.eu-west-1.amazonaws.com"
    # As long as names of load balancers are.
    api_server_cert_sans = ["k8s-a-name-of-thirty-two-letters-0123456789abcdef.elb.ap-southeast-5.amazonaws.com"]
  }

  assert {
    condition     = [for node in aws_instance.control_plane : node.subnet_id] == ["subnet-1", "subnet-2", "subnet-3", "subnet-1", "subnet-2"]
    error_message = "Control planes are not spread over the subnets."
  }

  assert {
    condition     = [for settings in local.control_plane_settings : settings.KUBEOPERA_INDEX] == [0, 1, 2, 3, 4]
    error_message = "Control planes do not know their indexes."
  }

  assert {
    condition     = local.control_plane_settings[3].KUBEOPERA_ENDPOINT_HOST == "k8s-test-0123456789abcdef.elb.eu-west-1.amazonaws.com"
    error_message = "The endpoint is not in lower case, which kubeadm wants."
  }

  # A quarter is kept free, for what scripts will have to do one day.
  assert {
    condition     = length(local.control_plane_user_data[4]) < 20000 && length(local.worker_user_data) < 16000
    error_message = "The user data, ${length(local.control_plane_user_data[4]) * 3 / 4} and ${length(local.worker_user_data) * 3 / 4} bytes, comes close to what AWS takes."
  }
}

run "hardens_machines" {
  command = plan

  assert {
    condition = alltrue([
      for options in [aws_instance.control_plane[0].metadata_options[0], aws_launch_template.workers.metadata_options[0]] :
      options.http_tokens == "required" && options.http_put_response_hop_limit == 1 && options.instance_metadata_tags == "disabled"
    ])
    error_message = "The instance metadata is open to pods, or without tokens, or has tags."
  }

  assert {
    condition     = aws_instance.control_plane[0].root_block_device[0].encrypted && aws_launch_template.workers.block_device_mappings[0].ebs[0].encrypted == "true"
    error_message = "Disks are not encrypted."
  }
}

run "tags_machines_for_the_cloud_controller" {
  command = plan

  variables {
    tags = { team = "platform" }
  }

  assert {
    condition     = aws_instance.control_plane[0].tags["kubernetes.io/cluster/test"] == "owned"
    error_message = "Control planes lack the cluster's tag."
  }

  assert {
    condition = {
      for tag in aws_autoscaling_group.workers.tag : tag.key => tag.value if tag.propagate_at_launch
    } == { Name = "test-worker", team = "platform", "kubeopera.io/node" = "worker", "kubernetes.io/cluster/test" = "owned" }
    error_message = "Workers do not get the cluster's tag and the others."
  }
}

run "gives_workers_no_more_than_they_need" {
  command = plan

  assert {
    condition = toset(flatten([
      for statement in jsondecode(aws_iam_role_policy.worker.policy).Statement : statement.Resource if statement.Effect == "Allow"
      ])) == toset([
      "arn:aws:ssm:*:111122223333:parameter/kubeopera/test/ca_cert_hash",
      "arn:aws:ssm:*:111122223333:parameter/kubeopera/test/cluster_state",
      "arn:aws:ssm:*:111122223333:parameter/kubeopera/test/join_token",
      "arn:aws:ssm:*:111122223333:parameter/kubeopera/test/k8s_api_endpoint",
      "arn:aws:ssm:*:111122223333:parameter/kubeopera/test/bootstrap_status/worker-*",
    ])
    error_message = "Workers reach other parameters than they need."
  }

  assert {
    condition = anytrue([
      for statement in jsondecode(aws_iam_role_policy.worker.policy).Statement :
      statement.Effect == "Deny" && contains(statement.Resource, "arn:aws:ssm:*:111122223333:parameter/kubeopera/test/admin_kubeconfig") if can(tolist(statement.Resource))
    ])
    error_message = "A policy that somebody attaches could show workers the kubeconfig."
  }

  assert {
    condition     = aws_iam_role_policy_attachment.ebs_csi.role == "test-control-plane"
    error_message = "Workers manage volumes."
  }
}

run "shortens_role_names" {
  command = plan

  variables {
    cluster_name = "a-name-of-sixty-characters-is-still-a-name-that-the-module-wi"
  }

  assert {
    condition = (
      length(aws_iam_role.control_plane.name) == 64 && length(aws_iam_role.worker.name) == 64 &&
      aws_iam_role.control_plane.name != aws_iam_role.worker.name
    )
    error_message = "Names are not two of IAM's 64 characters: ${aws_iam_role.control_plane.name}, ${aws_iam_role.worker.name}."
  }
}

run "takes_an_arm_image_for_an_arm_instance_type" {
  command = plan

  variables {
    worker_instance_type = "m7g.large"
    ubuntu_version       = "22.04"
  }

  override_data {
    target = data.aws_ec2_instance_type.worker
    values = {
      supported_architectures = ["arm64"]
    }
  }

  assert {
    condition     = one(data.aws_ami.worker[0].filter).values == toset(["ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-arm64-server-*"])
    error_message = "The image is not for the processor of the instance type."
  }

  assert {
    condition     = one(data.aws_ami.control_plane[0].filter).values == toset(["ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-*"])
    error_message = "The image is not for the processor of the instance type."
  }
}
