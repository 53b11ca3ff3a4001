mock_provider "aws" {}

variables {
  name               = "test"
  cluster_name       = "test"
  cidr_block         = "10.0.0.0/16"
  availability_zones = ["eu-west-1a", "eu-west-1b"]
}

run "refuses_host_bits" {
  command = plan
  variables {
    cidr_block = "10.0.0.5/16"
  }
  expect_failures = [var.cidr_block]
}

run "refuses_ipv6" {
  command = plan
  variables {
    cidr_block = "fd00::/48"
  }
  expect_failures = [var.cidr_block]
}

run "refuses_a_vpc_larger_than_aws_allows" {
  command = plan
  variables {
    cidr_block = "10.0.0.0/8"
  }
  expect_failures = [var.cidr_block]
}

run "refuses_a_vpc_without_room" {
  command = plan
  variables {
    cidr_block = "10.0.0.0/25"
  }
  expect_failures = [var.cidr_block]
}

run "refuses_a_zone_twice" {
  command = plan
  variables {
    availability_zones = ["eu-west-1a", "eu-west-1a"]
  }
  expect_failures = [var.availability_zones]
}

run "refuses_no_zones" {
  command = plan
  variables {
    availability_zones = []
  }
  expect_failures = [var.availability_zones]
}

run "refuses_four_zones_in_a_small_vpc" {
  command = plan
  variables {
    cidr_block         = "10.0.0.0/21"
    availability_zones = ["eu-west-1a", "eu-west-1b", "eu-west-1c", "eu-west-1d"]
  }
  expect_failures = [var.availability_zones]
}

run "refuses_a_name_with_spaces" {
  command = plan
  variables {
    name         = "a b"
    cluster_name = "a.b"
  }
  expect_failures = [var.name, var.cluster_name]
}
