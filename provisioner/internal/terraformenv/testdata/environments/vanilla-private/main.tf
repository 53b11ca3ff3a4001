# Rendered by cluster-provisioner, again for every run: changes made here are lost.

locals {
  cluster_name = "acme-prod"

  # On every resource, on machines and on their disks.
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

module "security" {
  source = "../../modules/security"

  name         = local.cluster_name
  cluster_name = local.cluster_name
  vpc_id       = module.vpc.vpc_id

  load_balancer      = false
  api_internal_cidrs = ["10.0.0.0/16"]
  api_public         = false

  tags = local.tags
}

# Nodes talk through these. Only tags may ever change: any other change, and any other
# value_wo_version, would overwrite what the nodes have written.
resource "aws_ssm_parameter" "bootstrap" {
  for_each = {
    "admin_kubeconfig"                 = "/kubeopera/acme-prod/admin_kubeconfig"
    "bootstrap_status/control-plane-0" = "/kubeopera/acme-prod/bootstrap_status/control-plane-0"
    "ca_cert_hash"                     = "/kubeopera/acme-prod/ca_cert_hash"
    "cluster_state"                    = "/kubeopera/acme-prod/cluster_state"
    "control_plane_joined/0"           = "/kubeopera/acme-prod/control_plane_joined/0"
    "join_token"                       = "/kubeopera/acme-prod/join_token"
    "k8s_api_endpoint"                 = "/kubeopera/acme-prod/k8s_api_endpoint"
  }

  name = each.value
  type = "SecureString"
  tier = "Standard"

  value_wo         = "PENDING"
  value_wo_version = 1

  tags = local.tags
}

module "compute" {
  source = "../../modules/compute"

  cluster_name       = local.cluster_name
  kubernetes_version = "1.36.3"
  parameters         = aws_ssm_parameter.bootstrap

  control_plane_subnet_ids        = module.vpc.private_subnet_ids
  worker_subnet_ids               = module.vpc.private_subnet_ids
  node_security_group_id          = module.security.node_security_group_id
  control_plane_security_group_id = module.security.control_plane_security_group_id

  enable_self_bootstrap_control_plane = true
  control_plane_count                 = 1
  control_plane_instance_type         = "t3.medium"

  worker_instance_type = "t3.large"
  worker_count         = 2
  worker_min           = 2
  worker_max           = 2

  tags = local.tags
}
