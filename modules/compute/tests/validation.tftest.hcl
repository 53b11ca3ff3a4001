# Each wrong input is refused by its own variable.

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
}

variables {
  cluster_name                    = "test"
  kubernetes_version              = "1.36.3"
  control_plane_subnet_ids        = ["subnet-1"]
  worker_subnet_ids               = ["subnet-1"]
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

run "refuses_several_control_planes_without_an_endpoint" {
  command = plan

  variables {
    control_plane_count = 3
  }

  expect_failures = [var.control_plane_endpoint_override]
}

run "refuses_an_even_number_of_control_planes" {
  command = plan

  variables {
    control_plane_count             = 2
    control_plane_endpoint_override = "api.example.com"
  }

  expect_failures = [var.control_plane_count]
}

run "refuses_an_elastic_ip_for_several" {
  command = plan

  variables {
    control_plane_count             = 3
    control_plane_endpoint_override = "api.example.com"
    control_plane_elastic_ip        = { allocation_id = "eipalloc-1", public_ip = "203.0.113.9" }
  }

  expect_failures = [var.control_plane_elastic_ip]
}

run "refuses_a_control_plane_too_small_for_kubeadm" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.control_plane
    values = {
      supported_architectures = ["x86_64"]
      default_vcpus           = 2
      memory_size             = 1024
    }
  }

  expect_failures = [aws_instance.control_plane]
}

run "refuses_a_version_without_a_patch" {
  command = plan

  variables {
    kubernetes_version = "1.36"
  }

  expect_failures = [var.kubernetes_version]
}

run "refuses_a_minor_version_that_is_not_known" {
  command = plan

  variables {
    kubernetes_version = "1.28.1"
  }

  expect_failures = [var.kubernetes_version]
}

run "refuses_what_a_shell_would_read" {
  command = plan

  variables {
    cluster_name                    = "a;reboot"
    kubernetes_version              = "1.36.3;reboot"
    control_plane_endpoint_override = "api.example.com;reboot"
    api_server_cert_sans            = ["api.example.com\nreboot"]
    pod_cidr                        = "192.168.0.0/16;reboot"
    service_cidr                    = "`reboot`"
  }

  expect_failures = [
    var.cluster_name,
    var.kubernetes_version,
    var.control_plane_endpoint_override,
    var.api_server_cert_sans,
    var.pod_cidr,
    var.service_cidr,
  ]
}

run "refuses_parameters_that_are_not_all_there" {
  command = plan

  variables {
    parameters = { join_token = { name = "/kubeopera/test/join_token" } }
  }

  expect_failures = [var.parameters]
}

run "refuses_parameters_of_two_prefixes" {
  command = plan

  variables {
    parameters = merge(var.parameters, { cluster_state = { name = "/kubeopera/other/cluster_state" } })
  }

  expect_failures = [var.parameters]
}

run "refuses_parameters_that_a_shell_would_read" {
  command = plan

  variables {
    parameters = { for name, parameter in var.parameters : name => { name = "/kubeopera/$(reboot)/${name}" } }
  }

  expect_failures = [var.parameters]
}

run "refuses_ranges_that_are_too_small" {
  command = plan

  variables {
    pod_cidr     = "192.168.0.0/24"
    service_cidr = "10.96.0.0/28"
  }

  expect_failures = [var.pod_cidr, var.service_cidr]
}

run "refuses_more_workers_than_the_most" {
  command = plan

  variables {
    worker_count = 5
  }

  expect_failures = [var.worker_count]
}

run "refuses_a_release_that_the_scripts_do_not_know" {
  command = plan

  variables {
    ubuntu_version = "20.04"
  }

  expect_failures = [var.ubuntu_version]
}

run "refuses_a_second_cluster_tag" {
  command = plan

  variables {
    tags = { "kubernetes.io/cluster/other" = "owned" }
  }

  expect_failures = [var.tags]
}
