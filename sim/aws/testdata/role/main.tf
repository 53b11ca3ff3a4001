terraform {
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
}

# The provider waits ten seconds here before it looks at the VPC again: longer
# than the test's sessions last.
resource "aws_vpc" "this" {
  cidr_block           = "10.31.0.0/16"
  enable_dns_hostnames = true
}

resource "aws_subnet" "this" {
  vpc_id     = aws_vpc.this.id
  cidr_block = "10.31.0.0/24"
}
