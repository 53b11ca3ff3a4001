# Rendered by cluster-provisioner, again for every run: changes made here are lost.

locals {
  cluster_name = "acme-prod"

  # On every resource, on nodes and on their disks.
  tags = {
    "kubeopera.io/environment" = "acme-prod"
    "kubeopera.io/managed-by"  = "cluster-provisioner"
  }
}

module "vpc" {
  source = "../../modules/vpc"

  name         = local.cluster_name
  cluster_name = local.cluster_name

  cidr_block = "10.0.0.0/16"

  tags = local.tags
}

module "eks" {
  source = "../../modules/eks"

  cluster_name       = local.cluster_name
  kubernetes_version = "1.35"
  subnet_ids         = module.vpc.private_subnet_ids

  credential_principal_arn = var.credential_principal_arn
  admin_principal_arn      = "arn:aws-us-gov:iam::111122223333:role/admins"

  endpoint_public_access = true
  public_access_cidrs    = ["203.0.113.0/24"]

  node_instance_type = "t3.large"
  node_count         = 2
  node_min           = 2
  node_max           = 2

  tags = local.tags
}
