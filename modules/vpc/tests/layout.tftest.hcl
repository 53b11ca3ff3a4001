# Plans against a mock of the provider: no account, no network.

mock_provider "aws" {
  mock_data "aws_availability_zones" {
    defaults = {
      names = ["eu-west-1a", "eu-west-1b", "eu-west-1c", "eu-west-1d"]
    }
  }
}

variables {
  name         = "test"
  cluster_name = "test"
  cidr_block   = "10.0.0.0/16"
}

run "takes_the_first_three_zones" {
  command = plan

  assert {
    condition     = tolist(output.availability_zones) == tolist(["eu-west-1a", "eu-west-1b", "eu-west-1c"])
    error_message = "Zones are ${join(", ", output.availability_zones)}."
  }

  assert {
    condition = { for zone, subnet in aws_subnet.private : zone => subnet.cidr_block } == {
      "eu-west-1a" = "10.0.0.0/19"
      "eu-west-1b" = "10.0.32.0/19"
      "eu-west-1c" = "10.0.64.0/19"
    }
    error_message = "Private subnets are not the first three eighths."
  }

  assert {
    condition = { for zone, subnet in aws_subnet.public : zone => subnet.cidr_block } == {
      "eu-west-1a" = "10.0.192.0/21"
      "eu-west-1b" = "10.0.200.0/21"
      "eu-west-1c" = "10.0.208.0/21"
    }
    error_message = "Public subnets are not in the last quarter."
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 3
    error_message = "Not one NAT gateway per zone."
  }

  assert {
    condition = alltrue([
      for subnet in aws_subnet.private : subnet.tags["kubernetes.io/role/internal-elb"] == "1" && subnet.tags["kubernetes.io/cluster/test"] == "shared"
    ])
    error_message = "Private subnets lack the tags by which controllers find them."
  }

  assert {
    condition = alltrue([
      for subnet in aws_subnet.public : subnet.tags["kubernetes.io/role/elb"] == "1" && subnet.tags["kubernetes.io/cluster/test"] == "shared"
    ])
    error_message = "Public subnets lack the tags by which controllers find them."
  }
}

run "appending_a_zone_moves_no_subnet" {
  command = plan

  variables {
    availability_zones = ["eu-west-1c", "eu-west-1a", "eu-west-1b", "eu-west-1d"]
  }

  assert {
    condition = { for zone, subnet in aws_subnet.private : zone => subnet.cidr_block } == {
      "eu-west-1c" = "10.0.0.0/19"
      "eu-west-1a" = "10.0.32.0/19"
      "eu-west-1b" = "10.0.64.0/19"
      "eu-west-1d" = "10.0.96.0/19"
    }
    error_message = "A zone's range does not follow from its place alone."
  }
}

run "fits_the_smallest_vpc" {
  command = plan

  variables {
    cidr_block = "10.9.8.0/24"
  }

  assert {
    condition = [
      for zone in ["eu-west-1a", "eu-west-1b", "eu-west-1c"] : aws_subnet.private[zone].cidr_block
    ] == ["10.9.8.0/26", "10.9.8.64/26", "10.9.8.128/26"]
    error_message = "Private subnets of a /24 are not its first three quarters."
  }

  assert {
    condition = [
      for zone in ["eu-west-1a", "eu-west-1b", "eu-west-1c"] : aws_subnet.public[zone].cidr_block
    ] == ["10.9.8.192/28", "10.9.8.208/28", "10.9.8.224/28"]
    error_message = "Public subnets of a /24 are not in its last quarter."
  }
}

run "shares_one_nat_gateway" {
  command = plan

  variables {
    single_nat_gateway = true
  }

  assert {
    condition     = toset(keys(aws_nat_gateway.this)) == toset(["eu-west-1a"]) && length(aws_eip.nat) == 1
    error_message = "Not exactly one NAT gateway, in the first zone."
  }

  assert {
    condition     = length(aws_route.nat) == 3
    error_message = "Not every zone has a route to the NAT gateway."
  }
}
