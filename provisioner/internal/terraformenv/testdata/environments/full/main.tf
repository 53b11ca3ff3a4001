# Rendered by cluster-provisioner, again for every run: changes made here are lost.

locals {
  cluster_name = "acme-prod"

  # On every resource, on nodes and on their disks.
  tags = {
    "cost-center"              = "42"
    "kubeopera.io/cluster"     = "acme"
    "kubeopera.io/environment" = "acme-prod"
    "kubeopera.io/managed-by"  = "cluster-provisioner"
    "path"                     = "a/b:c=d+e@f"
    "team"                     = "Platform Engineering"
    "équipe"                   = "plateforme été"
  }
}

module "vpc" {
  source = "../../modules/vpc"

  name         = local.cluster_name
  cluster_name = local.cluster_name

  cidr_block         = "10.20.30.0/24"
  availability_zones = ["eu-west-1b", "eu-west-1a", "eu-west-1c"]

  tags = local.tags
}

module "eks" {
  source = "../../modules/eks"

  cluster_name       = local.cluster_name
  kubernetes_version = "1.35"
  subnet_ids         = module.vpc.private_subnet_ids

  credential_principal_arn = var.credential_principal_arn
  admin_principal_arn      = "arn:aws:iam::111122223333:role/team/platform-admins"

  endpoint_public_access = true
  public_access_cidrs    = ["203.0.113.0/24", "198.51.100.7/32"]

  node_instance_type = "m7g.xlarge"
  node_count         = 3
  node_min           = 1
  node_max           = 10

  tags = local.tags
}
