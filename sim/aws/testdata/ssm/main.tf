terraform {
  required_version = ">= 1.11"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100.0, < 7.0.0"
    }
  }
  backend "s3" {
    key          = "terraform.tfstate"
    use_lockfile = true
    encrypt      = true
  }
}

provider "aws" {
  region = "eu-central-1"
  default_tags {
    tags = { "kubeopera.io/environment" = "ssm-test" }
  }
}

variable "note" {
  type    = string
  default = "one"
}

resource "aws_ssm_parameter" "secret" {
  for_each         = toset(["join_token", "admin_kubeconfig", "cluster_state", "control_plane_joined/0", "control_plane_joined/1"])
  name             = "/kubeopera/ssm-test/${each.key}"
  description      = "Written by the nodes of ssm-test."
  type             = "SecureString"
  tier             = "Standard"
  value_wo         = "PENDING"
  value_wo_version = 1
  tags             = { note = var.note }
}

resource "aws_ssm_parameter" "plain" {
  name  = "/kubeopera/ssm-test/plain"
  type  = "String"
  value = var.note
}

data "aws_ssm_parameter" "image" {
  name = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
}

output "image" { value = nonsensitive(data.aws_ssm_parameter.image.value) }
