# Cluster administrators. The set is keyed by ARN: a principal that is given
# twice has one entry, and one that changes its part keeps it.
locals {
  admin_arns = toset(compact([var.credential_principal_arn, var.admin_principal_arn]))
}

resource "aws_eks_access_entry" "admin" {
  for_each = local.admin_arns

  cluster_name  = aws_eks_cluster.this.name
  principal_arn = each.key

  tags = var.tags
}

resource "aws_eks_access_policy_association" "admin" {
  for_each = local.admin_arns

  cluster_name  = aws_eks_cluster.this.name
  principal_arn = aws_eks_access_entry.admin[each.key].principal_arn
  policy_arn    = "arn:${data.aws_partition.current.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"

  access_scope {
    type = "cluster"
  }
}
