# Plans against a mock of the provider: no account, no network.

mock_provider "aws" {
  mock_data "aws_ec2_instance_type" {
    defaults = {
      supported_architectures = ["x86_64"]
    }
  }

  mock_data "aws_partition" {
    defaults = {
      partition  = "aws-us-gov"
      dns_suffix = "amazonaws.com"
    }
  }

  mock_data "aws_eks_clusters" {
    defaults = {
      names = ["another"]
    }
  }
}

variables {
  cluster_name             = "test"
  kubernetes_version       = "1.35"
  subnet_ids               = ["subnet-1", "subnet-2"]
  credential_principal_arn = "arn:aws-us-gov:iam::111122223333:role/provisioner"
  node_instance_type       = "t3.large"
  node_count               = 2
  node_min                 = 1
  node_max                 = 4
}

run "plans_a_private_cluster" {
  command = plan

  assert {
    condition     = aws_eks_cluster.this.vpc_config[0].endpoint_private_access && !aws_eks_cluster.this.vpc_config[0].endpoint_public_access
    error_message = "The API is public unless asked for, or not served in the VPC."
  }

  assert {
    condition     = aws_eks_node_group.workers.scaling_config[0].desired_size == 2
    error_message = "A new group does not start with node_count nodes."
  }

  assert {
    condition     = aws_eks_node_group.workers.ami_type == "AL2023_x86_64_STANDARD"
    error_message = "The image is not for the processor of the instance type."
  }

  assert {
    condition     = toset(keys(aws_eks_access_entry.admin)) == toset([var.credential_principal_arn])
    error_message = "Administrators are not exactly the credential's principal."
  }

  assert {
    condition     = aws_iam_role_policy_attachment.cluster.policy_arn == "arn:aws-us-gov:iam::aws:policy/AmazonEKSClusterPolicy"
    error_message = "ARNs do not have the partition of the account."
  }

  assert {
    condition     = aws_iam_role.cluster.name == "test-eks-cluster" && aws_iam_role.nodes.name == "test-eks-nodes"
    error_message = "Roles are not named after the cluster."
  }
}

run "opens_the_api_to_the_listed_ranges" {
  command = plan

  variables {
    endpoint_public_access = true
    public_access_cidrs    = ["203.0.113.0/24"]
    private_access_cidrs   = ["10.0.0.0/16"]
  }

  assert {
    condition     = aws_eks_cluster.this.vpc_config[0].public_access_cidrs == toset(["203.0.113.0/24"])
    error_message = "The public API is not limited to the listed ranges."
  }

  assert {
    condition     = toset(keys(aws_vpc_security_group_ingress_rule.api)) == toset(["10.0.0.0/16"])
    error_message = "The API in the VPC is not open to the listed ranges."
  }
}

run "has_one_entry_for_each_administrator" {
  command = plan

  variables {
    admin_principal_arn = "arn:aws-us-gov:iam::111122223333:user/admin"
  }

  assert {
    condition     = length(aws_eks_access_entry.admin) == 2 && length(aws_eks_access_policy_association.admin) == 2
    error_message = "Two principals do not have two entries."
  }
}

run "has_one_entry_for_a_principal_that_is_given_twice" {
  command = plan

  variables {
    admin_principal_arn = "arn:aws-us-gov:iam::111122223333:role/provisioner"
  }

  assert {
    condition     = length(aws_eks_access_entry.admin) == 1
    error_message = "One principal has two entries, of which AWS refuses the second."
  }
}

run "takes_an_arm_image_for_an_arm_instance_type" {
  command = plan

  variables {
    node_instance_type = "m7g.large"
  }

  override_data {
    target = data.aws_ec2_instance_type.node
    values = {
      supported_architectures = ["arm64"]
    }
  }

  assert {
    condition     = aws_eks_node_group.workers.ami_type == "AL2023_ARM_64_STANDARD"
    error_message = "The image is not for the processor of the instance type."
  }
}

run "shortens_role_names" {
  command = plan

  variables {
    cluster_name = "a-name-of-sixty-characters-is-still-a-name-that-eks-will-take"
  }

  assert {
    condition = alltrue([
      for role in [aws_iam_role.cluster, aws_iam_role.nodes] :
      length(role.name) == 64 && startswith(role.name, "a-name-of-sixty-characters-is-still-a-name-that-eks-wil")
    ])
    error_message = "Names are not of IAM's 64 characters: ${aws_iam_role.cluster.name}, ${aws_iam_role.nodes.name}."
  }

  assert {
    condition     = aws_iam_role.cluster.name != aws_iam_role.nodes.name
    error_message = "Shortened names are the same."
  }
}

# What an autoscaler made of a cluster that exists.
run "keeps_the_number_of_nodes" {
  command = plan

  override_data {
    target = data.aws_eks_clusters.this
    values = {
      names = ["another", "test"]
    }
  }

  override_data {
    target = data.aws_eks_node_groups.this
    values = {
      names = ["workers-1", "of-somebody-else"]
    }
  }

  override_data {
    target = data.aws_eks_node_group.workers
    values = {
      scaling_config = [{ desired_size = 3, min_size = 1, max_size = 4 }]
    }
  }

  assert {
    condition     = aws_eks_node_group.workers.scaling_config[0].desired_size == 3
    error_message = "The next apply undoes what an autoscaler has decided."
  }
}

run "moves_the_number_of_nodes_into_a_new_range" {
  command = plan

  variables {
    node_count = 6
    node_min   = 6
    node_max   = 6
  }

  override_data {
    target = data.aws_eks_clusters.this
    values = {
      names = ["test"]
    }
  }

  override_data {
    target = data.aws_eks_node_groups.this
    values = {
      names = ["workers-1"]
    }
  }

  override_data {
    target = data.aws_eks_node_group.workers
    values = {
      scaling_config = [{ desired_size = 3, min_size = 1, max_size = 4 }]
    }
  }

  assert {
    condition     = aws_eks_node_group.workers.scaling_config[0].desired_size == 6
    error_message = "The number of nodes is outside of its range, which EKS refuses."
  }
}
