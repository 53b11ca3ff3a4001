# The plan fails here, in seconds, when the region has no such instance type.
data "aws_ec2_instance_type" "control_plane" {
  instance_type = var.control_plane_instance_type
}

data "aws_ec2_instance_type" "worker" {
  instance_type = var.worker_instance_type
}

locals {
  # Canonical's accounts, by partition. The account, not the name, says whose an
  # image is: anybody may give any name.
  canonical = {
    aws        = "099720109477"
    aws-us-gov = "513442679011"
    aws-cn     = "837727238323"
  }

  image_names = {
    "22.04" = "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-%s-server-*"
    "24.04" = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-%s-server-*"
  }

  control_plane_architecture = contains(data.aws_ec2_instance_type.control_plane.supported_architectures, "arm64") ? "arm64" : "amd64"
  worker_architecture        = contains(data.aws_ec2_instance_type.worker.supported_architectures, "arm64") ? "arm64" : "amd64"
}

data "aws_ami" "control_plane" {
  count = var.control_plane_ami_id == null ? 1 : 0

  most_recent = true
  owners      = [local.canonical[data.aws_partition.current.partition]]

  filter {
    name   = "name"
    values = [format(local.image_names[var.ubuntu_version], local.control_plane_architecture)]
  }
}

data "aws_ami" "worker" {
  count = var.worker_ami_id == null ? 1 : 0

  most_recent = true
  owners      = [local.canonical[data.aws_partition.current.partition]]

  filter {
    name   = "name"
    values = [format(local.image_names[var.ubuntu_version], local.worker_architecture)]
  }
}
