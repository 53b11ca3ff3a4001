mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = {
      partition  = "aws"
      dns_suffix = "amazonaws.com"
    }
  }

  mock_data "aws_eks_clusters" {
    defaults = {
      names = []
    }
  }
}

variables {
  cluster_name             = "test"
  kubernetes_version       = "1.35"
  subnet_ids               = ["subnet-1", "subnet-2"]
  credential_principal_arn = "arn:aws:iam::111122223333:user/provisioner"
  node_instance_type       = "t3.large"
  node_count               = 2
  node_min                 = 2
  node_max                 = 2
}

run "refuses_a_name_that_eks_does_not_take" {
  command = plan
  variables {
    cluster_name = "a.b"
  }
  expect_failures = [var.cluster_name]
}

run "refuses_a_patch_version" {
  command = plan
  variables {
    kubernetes_version = "1.35.2"
  }
  expect_failures = [var.kubernetes_version]
}

run "refuses_a_single_subnet" {
  command = plan
  variables {
    subnet_ids = ["subnet-1"]
  }
  expect_failures = [var.subnet_ids]
}

run "refuses_a_session_as_administrator" {
  command = plan
  variables {
    credential_principal_arn = "arn:aws:sts::111122223333:assumed-role/provisioner/session"
    admin_principal_arn      = "arn:aws:iam::111122223333:root"
  }
  expect_failures = [var.credential_principal_arn, var.admin_principal_arn]
}

run "refuses_a_public_api_for_nobody_in_particular" {
  command = plan
  variables {
    endpoint_public_access = true
  }
  expect_failures = [var.public_access_cidrs]
}

run "refuses_ranges_that_are_not_ipv4" {
  command = plan
  variables {
    endpoint_public_access = true
    public_access_cidrs    = ["2001:db8::/32"]
    private_access_cidrs   = ["anywhere"]
  }
  expect_failures = [var.public_access_cidrs, var.private_access_cidrs]
}

run "refuses_an_unknown_log_type" {
  command = plan
  variables {
    cluster_log_types  = ["kubelet"]
    log_retention_days = 31
  }
  expect_failures = [var.cluster_log_types, var.log_retention_days]
}

run "refuses_a_group_outside_of_its_range" {
  command = plan
  variables {
    node_min = 3
    node_max = 4
  }
  expect_failures = [var.node_count]
}

run "refuses_an_empty_group" {
  command = plan
  variables {
    node_count = 0
    node_min   = 0
  }
  expect_failures = [var.node_count]
}

run "refuses_malformed_nodes" {
  command = plan
  variables {
    node_instance_type = "t3.large\""
    node_ami_type      = "BOTTLEROCKET_x86_64"
    node_disk_size_gib = 8
  }
  expect_failures = [var.node_instance_type, var.node_ami_type, var.node_disk_size_gib]
}
