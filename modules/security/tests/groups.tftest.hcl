# Plans against a mock of the provider: no account, no network.

mock_provider "aws" {}

variables {
  name               = "test"
  cluster_name       = "test"
  vpc_id             = "vpc-1"
  load_balancer      = false
  api_internal_cidrs = ["10.0.0.0/16"]
}

run "has_no_load_balancer_for_one_control_plane" {
  command = plan

  assert {
    condition     = length(aws_security_group.api_internal) == 0 && length(aws_security_group.api_public) == 0
    error_message = "There are groups for load balancers that do not exist."
  }

  assert {
    condition     = toset(keys(aws_vpc_security_group_ingress_rule.api_direct)) == toset(["10.0.0.0/16"])
    error_message = "The API is not open to exactly the ranges inside the VPC."
  }
}

run "opens_the_only_control_plane_to_the_public_ranges" {
  command = plan

  variables {
    api_public       = true
    api_public_cidrs = ["203.0.113.0/24"]
  }

  assert {
    condition     = toset(keys(aws_vpc_security_group_ingress_rule.api_direct)) == toset(["10.0.0.0/16", "203.0.113.0/24"])
    error_message = "The API is not open to exactly the listed ranges."
  }
}

run "filters_at_the_load_balancers" {
  command = plan

  variables {
    load_balancer    = true
    api_public       = true
    api_public_cidrs = ["203.0.113.0/24"]
  }

  assert {
    condition     = length(aws_vpc_security_group_ingress_rule.api_direct) == 0
    error_message = "Control planes can be reached past the load balancer."
  }

  assert {
    condition     = toset(keys(aws_vpc_security_group_ingress_rule.api_public)) == toset(["203.0.113.0/24"])
    error_message = "The public load balancer is not limited to the listed ranges."
  }

  assert {
    condition     = toset(keys(aws_vpc_security_group_ingress_rule.api_internal)) == toset(["10.0.0.0/16"])
    error_message = "The internal load balancer is not limited to the listed ranges."
  }

  assert {
    condition     = toset(keys(aws_vpc_security_group_ingress_rule.api_from_load_balancer)) == toset(["internal", "public"])
    error_message = "Not both load balancers reach the control planes."
  }
}

run "tags_exactly_one_group_with_the_cluster" {
  command = plan

  variables {
    load_balancer    = true
    api_public       = true
    api_public_cidrs = ["203.0.113.0/24"]
  }

  assert {
    condition = [
      for group in concat(
        [aws_security_group.nodes, aws_security_group.control_plane], aws_security_group.api_internal, aws_security_group.api_public,
      ) : group.name if contains(keys(group.tags), "kubernetes.io/cluster/test")
    ] == ["test-nodes"]
    error_message = "The cluster's tag is not on the nodes' group alone."
  }
}

run "lets_pods_talk_by_vxlan" {
  command = plan

  assert {
    condition = (
      aws_vpc_security_group_ingress_rule.nodes["calico_vxlan"].ip_protocol == "udp" &&
      aws_vpc_security_group_ingress_rule.nodes["calico_vxlan"].from_port == 4789 &&
      aws_vpc_security_group_ingress_rule.nodes["calico_vxlan"].to_port == 4789
    )
    error_message = "VXLAN is not open between nodes."
  }

  assert {
    condition     = length(aws_vpc_security_group_ingress_rule.node_ports) == 0
    error_message = "NodePorts are open by default."
  }
}

run "refuses_a_public_api_for_nobody" {
  command = plan

  variables {
    api_public = true
  }

  expect_failures = [var.api_public_cidrs]
}

run "refuses_a_second_cluster_tag" {
  command = plan

  variables {
    tags = { "kubernetes.io/cluster/other" = "owned" }
  }

  expect_failures = [var.tags]
}

run "refuses_ranges_that_are_none" {
  command = plan

  variables {
    api_internal_cidrs = ["10.0.0.0"]
    node_port_cidrs    = ["::/0"]
  }

  expect_failures = [var.api_internal_cidrs, var.node_port_cidrs]
}
