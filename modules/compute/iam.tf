data "aws_partition" "current" {}

data "aws_caller_identity" "current" {}

# IAM names are global to the account and hold 64 characters: a longer one ends
# in a hash of what it would have been.
locals {
  role_names = {
    for key, name in {
      control_plane = "${var.cluster_name}-control-plane"
      worker        = "${var.cluster_name}-worker"
    } : key => length(name) <= 64 ? name : "${substr(name, 0, 55)}-${substr(sha256(name), 0, 8)}"
  }

  partition     = data.aws_partition.current.partition
  parameter_arn = "arn:${local.partition}:ssm:*:${data.aws_caller_identity.current.account_id}:parameter${local.parameter_prefix}"

  trust_ec2 = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Action = "sts:AssumeRole"
      # The one service principal that is spelled with the partition's own suffix.
      Principal = { Service = "ec2.${data.aws_partition.current.dns_suffix}" }
    }]
  })
}

resource "aws_iam_role" "control_plane" {
  name               = local.role_names.control_plane
  description        = "Control planes of the cluster ${var.cluster_name}."
  assume_role_policy = local.trust_ec2

  tags = var.tags
}

resource "aws_iam_role" "worker" {
  name               = local.role_names.worker
  description        = "Workers of the cluster ${var.cluster_name}."
  assume_role_policy = local.trust_ec2

  tags = var.tags
}

resource "aws_iam_instance_profile" "control_plane" {
  name = local.role_names.control_plane
  role = aws_iam_role.control_plane.name

  tags = var.tags
}

resource "aws_iam_instance_profile" "worker" {
  name = local.role_names.worker
  role = aws_iam_role.worker.name

  tags = var.tags
}

resource "aws_iam_role_policy" "control_plane" {
  name = "control-plane"
  role = aws_iam_role.control_plane.name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "Parameters"
        Effect   = "Allow"
        Action   = ["ssm:GetParameter", "ssm:GetParameters", "ssm:PutParameter"]
        Resource = "${local.parameter_arn}/*"
      },
      {
        # Of the cloud controller, and to find machines that are gone.
        Sid    = "Describe"
        Effect = "Allow"
        Action = [
          "autoscaling:DescribeAutoScalingGroups",
          "autoscaling:DescribeTags",
          "ec2:DescribeAvailabilityZones",
          "ec2:DescribeInstances",
          "ec2:DescribeInstanceTopology",
          "ec2:DescribeRegions",
          "ec2:DescribeSecurityGroups",
          "ec2:DescribeSubnets",
          "ec2:DescribeVpcs",
          "elasticloadbalancing:DescribeListeners",
          "elasticloadbalancing:DescribeLoadBalancerAttributes",
          "elasticloadbalancing:DescribeLoadBalancerPolicies",
          "elasticloadbalancing:DescribeLoadBalancers",
          "elasticloadbalancing:DescribeTags",
          "elasticloadbalancing:DescribeTargetGroupAttributes",
          "elasticloadbalancing:DescribeTargetGroups",
          "elasticloadbalancing:DescribeTargetHealth",
          "kms:DescribeKey",
        ]
        Resource = "*"
      },
      {
        # Load balancers of Services: classic and network ones, and their groups.
        Sid    = "LoadBalancers"
        Effect = "Allow"
        Action = [
          "ec2:AuthorizeSecurityGroupIngress",
          "ec2:CreateSecurityGroup",
          "ec2:CreateTags",
          "ec2:DeleteSecurityGroup",
          "ec2:RevokeSecurityGroupIngress",
          "elasticloadbalancing:AddTags",
          "elasticloadbalancing:ApplySecurityGroupsToLoadBalancer",
          "elasticloadbalancing:AttachLoadBalancerToSubnets",
          "elasticloadbalancing:ConfigureHealthCheck",
          "elasticloadbalancing:CreateListener",
          "elasticloadbalancing:CreateLoadBalancer",
          "elasticloadbalancing:CreateLoadBalancerListeners",
          "elasticloadbalancing:CreateLoadBalancerPolicy",
          "elasticloadbalancing:CreateTargetGroup",
          "elasticloadbalancing:DeleteListener",
          "elasticloadbalancing:DeleteLoadBalancer",
          "elasticloadbalancing:DeleteLoadBalancerListeners",
          "elasticloadbalancing:DeleteTargetGroup",
          "elasticloadbalancing:DeregisterInstancesFromLoadBalancer",
          "elasticloadbalancing:DeregisterTargets",
          "elasticloadbalancing:DetachLoadBalancerFromSubnets",
          "elasticloadbalancing:ModifyListener",
          "elasticloadbalancing:ModifyLoadBalancerAttributes",
          "elasticloadbalancing:ModifyTargetGroup",
          "elasticloadbalancing:ModifyTargetGroupAttributes",
          "elasticloadbalancing:RegisterInstancesWithLoadBalancer",
          "elasticloadbalancing:RegisterTargets",
          "elasticloadbalancing:SetLoadBalancerPoliciesForBackendServer",
          "elasticloadbalancing:SetLoadBalancerPoliciesOfListener",
          "elasticloadbalancing:SetSecurityGroups",
        ]
        Resource = "*"
      },
      {
        Sid       = "LoadBalancersOwnRole"
        Effect    = "Allow"
        Action    = "iam:CreateServiceLinkedRole"
        Resource  = "*"
        Condition = { StringEquals = { "iam:AWSServiceName" = "elasticloadbalancing.amazonaws.com" } }
      },
    ]
  })
}

# Volumes, only those that the driver has tagged.
resource "aws_iam_role_policy_attachment" "ebs_csi" {
  role       = aws_iam_role.control_plane.name
  policy_arn = "arn:${local.partition}:iam::aws:policy/AmazonEBSCSIDriverPolicyV2"
}

# What a worker needs to join, and to say how it goes. The denial holds whatever
# other policy somebody attaches to the role: many of AWS's own, that for Systems
# Manager among them, may read every parameter, and with the kubeconfig or the
# certificate key a worker would be the cluster's administrator.
resource "aws_iam_role_policy" "worker" {
  name = "worker"
  role = aws_iam_role.worker.name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "ReadJoin"
        Effect   = "Allow"
        Action   = "ssm:GetParameters"
        Resource = local.worker_readable
      },
      {
        Sid      = "ReportStatus"
        Effect   = "Allow"
        Action   = "ssm:PutParameter"
        Resource = "${local.parameter_arn}/bootstrap_status/worker-*"
      },
      {
        Sid    = "NoSecretsOfControlPlanes"
        Effect = "Deny"
        Action = ["ssm:GetParameter*", "ssm:PutParameter", "ssm:DeleteParameter*", "ssm:LabelParameterVersion"]
        Resource = [
          for name in ["admin_kubeconfig", "bootstrap_status/control-plane-*", "control_plane_joined/*", "init_claims/*", "join_turns/*", "k8s_certificate_key"] :
          "${local.parameter_arn}/${name}"
        ]
      },
      {
        Sid      = "NoChangeOfJoin"
        Effect   = "Deny"
        Action   = ["ssm:PutParameter", "ssm:DeleteParameter*", "ssm:LabelParameterVersion", "ssm:GetParameterHistory"]
        Resource = local.worker_readable
      },
      {
        # Who may read a path may read all below it, whatever is denied there.
        Sid      = "NoPaths"
        Effect   = "Deny"
        Action   = "ssm:GetParametersByPath"
        Resource = "*"
      },
    ]
  })
}

locals {
  worker_readable = [
    for name in ["ca_cert_hash", "cluster_state", "join_token", "k8s_api_endpoint"] : "${local.parameter_arn}/${name}"
  ]
}

# Shell access by Session Manager, and nothing else of what AWS's own policy for it
# allows, which includes reading every parameter.
resource "aws_iam_role_policy" "shell" {
  for_each = { control_plane = aws_iam_role.control_plane.name, worker = aws_iam_role.worker.name }

  name = "shell"
  role = each.value

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Action = [
        "ssm:UpdateInstanceInformation",
        "ssmmessages:CreateControlChannel",
        "ssmmessages:CreateDataChannel",
        "ssmmessages:OpenControlChannel",
        "ssmmessages:OpenDataChannel",
      ]
      Resource = "*"
    }]
  })
}
