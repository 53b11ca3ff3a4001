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

  endpoint_public_access = false
  private_access_cidrs   = ["10.8.0.0/16", "192.168.10.0/24"]

  node_instance_type = "t3.large"
  node_count         = 2
  node_min           = 2
  node_max           = 2

  tags = local.tags
}
