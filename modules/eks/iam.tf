# IAM names are global to the account and hold 64 characters: a longer one ends
# in a hash of what it would have been.
locals {
  role_names = {
    for key, name in {
      cluster = "${var.cluster_name}-eks-cluster"
      nodes   = "${var.cluster_name}-eks-nodes"
    } : key => length(name) <= 64 ? name : "${substr(name, 0, 55)}-${substr(sha256(name), 0, 8)}"
  }

  policy_prefix = "arn:${data.aws_partition.current.partition}:iam::aws:policy"
}

data "aws_partition" "current" {}

resource "aws_iam_role" "cluster" {
  name        = local.role_names.cluster
  description = "Control plane of the EKS cluster ${var.cluster_name}."

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "eks.amazonaws.com" }
    }]
  })

  tags = var.tags
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "${local.policy_prefix}/AmazonEKSClusterPolicy"
}

resource "aws_iam_role" "nodes" {
  name        = local.role_names.nodes
  description = "Nodes of the EKS cluster ${var.cluster_name}."

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Action = "sts:AssumeRole"
      # The one service principal that is spelled with the partition's own suffix.
      Principal = { Service = "ec2.${data.aws_partition.current.dns_suffix}" }
    }]
  })

  tags = var.tags
}

# The CNI's rights are on the node role because the first nodes must have a
# network before anything that could hand out rights to pods can run.
resource "aws_iam_role_policy_attachment" "nodes" {
  for_each = toset([
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonSSMManagedInstanceCore",
  ])

  role       = aws_iam_role.nodes.name
  policy_arn = "${local.policy_prefix}/${each.key}"
}
