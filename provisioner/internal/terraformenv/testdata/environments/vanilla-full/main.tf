# Rendered by cluster-provisioner, again for every run: changes made here are lost.

locals {
  cluster_name = "internal-acme-production-in-the-far-we"

  # On every resource, on machines and on their disks.
  tags = {
    "cost-center"              = "42"
    "kubeopera.io/cluster"     = "acme"
    "kubeopera.io/environment" = "internal-acme-production-in-the-far-we"
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

  cidr_block         = "192.168.0.0/20"
  availability_zones = ["eu-west-1b", "eu-west-1a", "eu-west-1c"]

  tags = local.tags
}

module "security" {
  source = "../../modules/security"

  name         = local.cluster_name
  cluster_name = local.cluster_name
  vpc_id       = module.vpc.vpc_id

  load_balancer      = true
  api_internal_cidrs = ["192.168.0.0/20"]
  api_public         = true
  api_public_cidrs   = ["203.0.113.0/24", "198.51.100.7/32"]

  tags = local.tags
}

# Nodes talk through these. Only tags may ever change: any other change, and any other
# value_wo_version, would overwrite what the nodes have written.
resource "aws_ssm_parameter" "bootstrap" {
  for_each = {
    "admin_kubeconfig"                 = "/kubeopera/internal-acme-production-in-the-far-we/admin_kubeconfig"
    "bootstrap_status/control-plane-0" = "/kubeopera/internal-acme-production-in-the-far-we/bootstrap_status/control-plane-0"
    "bootstrap_status/control-plane-1" = "/kubeopera/internal-acme-production-in-the-far-we/bootstrap_status/control-plane-1"
    "bootstrap_status/control-plane-2" = "/kubeopera/internal-acme-production-in-the-far-we/bootstrap_status/control-plane-2"
    "ca_cert_hash"                     = "/kubeopera/internal-acme-production-in-the-far-we/ca_cert_hash"
    "cluster_state"                    = "/kubeopera/internal-acme-production-in-the-far-we/cluster_state"
    "control_plane_joined/0"           = "/kubeopera/internal-acme-production-in-the-far-we/control_plane_joined/0"
    "control_plane_joined/1"           = "/kubeopera/internal-acme-production-in-the-far-we/control_plane_joined/1"
    "control_plane_joined/2"           = "/kubeopera/internal-acme-production-in-the-far-we/control_plane_joined/2"
    "join_token"                       = "/kubeopera/internal-acme-production-in-the-far-we/join_token"
    "k8s_api_endpoint"                 = "/kubeopera/internal-acme-production-in-the-far-we/k8s_api_endpoint"
    "k8s_certificate_key"              = "/kubeopera/internal-acme-production-in-the-far-we/k8s_certificate_key"
  }

  name = each.value
  type = "SecureString"
  tier = "Standard"

  value_wo         = "PENDING"
  value_wo_version = 1

  tags = local.tags
}

# The API's endpoint for nodes and the VPC. Its name is in certificates: it is for the cluster's life.
resource "aws_lb" "api_internal" {
  name               = "k8s-internal-acme-p-8b1d61bb-int"
  load_balancer_type = "network"
  internal           = true

  subnets         = module.vpc.private_subnet_ids
  security_groups = [module.security.api_internal_security_group_id]

  # Else a zone without a healthy control plane would have no API.
  enable_cross_zone_load_balancing = true

  tags = local.tags
}

resource "aws_lb_target_group" "api_internal" {
  name                 = "k8s-internal-acme-p-8b1d61bb-int"
  vpc_id               = module.vpc.vpc_id
  target_type          = "instance"
  protocol             = "TCP"
  port                 = 6443
  deregistration_delay = 60

  # A control plane that is led to itself would wait for an answer from another address.
  preserve_client_ip = false

  health_check {
    protocol            = "HTTPS"
    path                = "/readyz"
    matcher             = "200"
    interval            = 10
    healthy_threshold   = 2
    unhealthy_threshold = 2
  }

  tags = local.tags
}

resource "aws_lb_listener" "api_internal" {
  load_balancer_arn = aws_lb.api_internal.arn
  protocol          = "TCP"
  port              = 6443

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.api_internal.arn
  }

  tags = local.tags
}

resource "aws_lb_target_group_attachment" "api_internal" {
  count = 3

  target_group_arn = aws_lb_target_group.api_internal.arn
  target_id        = module.compute.control_plane_instance_ids[count.index]
}

# The API for the outside. Nodes do not use it.
resource "aws_lb" "api_public" {
  name               = "k8s-internal-acme-p-8b1d61bb-pub"
  load_balancer_type = "network"
  internal           = false

  subnets         = module.vpc.public_subnet_ids
  security_groups = [module.security.api_public_security_group_id]

  # Else a zone without a healthy control plane would have no API.
  enable_cross_zone_load_balancing = true

  tags = local.tags
}

resource "aws_lb_target_group" "api_public" {
  name                 = "k8s-internal-acme-p-8b1d61bb-pub"
  vpc_id               = module.vpc.vpc_id
  target_type          = "instance"
  protocol             = "TCP"
  port                 = 6443
  deregistration_delay = 60

  # A control plane that is led to itself would wait for an answer from another address.
  preserve_client_ip = false

  health_check {
    protocol            = "HTTPS"
    path                = "/readyz"
    matcher             = "200"
    interval            = 10
    healthy_threshold   = 2
    unhealthy_threshold = 2
  }

  tags = local.tags
}

resource "aws_lb_listener" "api_public" {
  load_balancer_arn = aws_lb.api_public.arn
  protocol          = "TCP"
  port              = 6443

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.api_public.arn
  }

  tags = local.tags
}

resource "aws_lb_target_group_attachment" "api_public" {
  count = 3

  target_group_arn = aws_lb_target_group.api_public.arn
  target_id        = module.compute.control_plane_instance_ids[count.index]
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
  control_plane_count                 = 3
  control_plane_instance_type         = "m7g.large"
  control_plane_endpoint_override     = aws_lb.api_internal.dns_name
  api_server_cert_sans                = [aws_lb.api_public.dns_name]

  worker_instance_type = "m7g.xlarge"
  worker_count         = 3
  worker_min           = 0
  worker_max           = 10

  pod_cidr = "10.32.0.0/14"

  tags = local.tags
}
