variable "cluster_name" {
  description = "Name of the EKS cluster; IAM roles, log group and launch template are named after it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-zA-Z0-9][a-zA-Z0-9_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must be 1 to 100 letters, digits, underscores and hyphens, and start with a letter or digit."
  }
}

variable "kubernetes_version" {
  description = "Kubernetes version of the control plane and the nodes, major.minor. EKS goes up one minor at a time and never down."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^1\\.[1-9][0-9]$", var.kubernetes_version))
    error_message = "kubernetes_version must be major.minor, such as 1.35; EKS chooses the patch."
  }
}

variable "subnet_ids" {
  description = "Ids of the private subnets for the nodes and for the control plane's network interfaces, in at least two zones."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.subnet_ids) >= 2
    error_message = "subnet_ids must name subnets in at least two zones: EKS places its control plane in two."
  }
}

variable "credential_principal_arn" {
  description = "ARN of the IAM role or user whose credential manages the cluster; it becomes cluster administrator. Of an assumed role this is the role, not the session."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(role|user)/.+$", var.credential_principal_arn))
    error_message = "credential_principal_arn must be the ARN of an IAM role or user, such as arn:aws:iam::111122223333:role/provisioner."
  }
}

variable "admin_principal_arn" {
  description = "ARN of one more IAM role or user that becomes cluster administrator; null for none."
  type        = string
  default     = null

  validation {
    condition     = var.admin_principal_arn == null || can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(role|user)/.+$", var.admin_principal_arn))
    error_message = "admin_principal_arn must be the ARN of an IAM role or user, such as arn:aws:iam::111122223333:role/admins."
  }
}

variable "endpoint_public_access" {
  description = "Serve the Kubernetes API on a public address as well. It is always served inside the VPC."
  type        = bool
  default     = false
  nullable    = false
}

variable "public_access_cidrs" {
  description = "IPv4 ranges that may reach the public address; AWS refuses private ranges. The whole internet is 0.0.0.0/0, and only if written so."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = !var.endpoint_public_access || length(var.public_access_cidrs) > 0
    error_message = "public_access_cidrs must not be empty when endpoint_public_access is true: EKS would open the API to the whole internet."
  }

  validation {
    condition     = alltrue([for cidr in var.public_access_cidrs : can(cidrhost(cidr, 0)) && !strcontains(cidr, ":")])
    error_message = "public_access_cidrs must be IPv4 ranges, such as 203.0.113.0/24."
  }
}

variable "private_access_cidrs" {
  description = "IPv4 ranges that may reach the API inside the VPC, beside the nodes: those of peered networks and VPNs, for instance."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for cidr in var.private_access_cidrs : can(cidrhost(cidr, 0)) && !strcontains(cidr, ":")])
    error_message = "private_access_cidrs must be IPv4 ranges, such as 192.168.0.0/16."
  }
}

variable "cluster_log_types" {
  description = "Logs of the control plane that go to CloudWatch."
  type        = list(string)
  default     = ["api", "audit", "authenticator"]
  nullable    = false

  validation {
    condition     = alltrue([for type in var.cluster_log_types : contains(["api", "audit", "authenticator", "controllerManager", "scheduler"], type)])
    error_message = "cluster_log_types may hold api, audit, authenticator, controllerManager and scheduler."
  }
}

variable "log_retention_days" {
  description = "Days for which CloudWatch keeps the control plane's logs."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "log_retention_days must be a period that CloudWatch offers: 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653."
  }
}

variable "node_instance_type" {
  description = "EC2 instance type of the nodes, x86 or Arm. Changing it replaces the nodes one after the other."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9-]+\\.[a-z0-9-]+$", var.node_instance_type))
    error_message = "node_instance_type must be an EC2 instance type, such as t3.large."
  }
}

variable "node_ami_type" {
  description = "EKS AMI type of the nodes, one of Amazon Linux 2023; null takes the standard one for the processor of node_instance_type. Needed for GPUs only."
  type        = string
  default     = null

  # Others have their root disk under another name than the launch template says.
  validation {
    condition     = var.node_ami_type == null || can(regex("^AL2023_", var.node_ami_type))
    error_message = "node_ami_type must be an EKS AMI type of Amazon Linux 2023, such as AL2023_x86_64_NVIDIA."
  }
}

variable "node_count" {
  description = "Nodes to start with. Afterwards the group keeps the number that it has, which an autoscaler may have chosen, as long as it is within node_min and node_max."
  type        = number
  nullable    = false

  validation {
    condition     = var.node_count >= 1 && floor(var.node_count) == var.node_count
    error_message = "node_count must be a whole number of at least 1: without a node CoreDNS never becomes ready."
  }

  validation {
    condition     = var.node_min <= var.node_count && var.node_count <= var.node_max
    error_message = "node_count must not be below node_min or above node_max."
  }
}

variable "node_min" {
  description = "Fewest nodes of the group."
  type        = number
  nullable    = false

  validation {
    condition     = var.node_min >= 0 && floor(var.node_min) == var.node_min
    error_message = "node_min must be a whole number, not negative."
  }
}

variable "node_max" {
  description = "Most nodes of the group."
  type        = number
  nullable    = false

  validation {
    condition     = var.node_max >= 1 && floor(var.node_max) == var.node_max
    error_message = "node_max must be a whole number of at least 1."
  }
}

variable "node_disk_size_gib" {
  description = "Size of a node's root disk in GiB; container images and logs are kept on it."
  type        = number
  default     = 50
  nullable    = false

  validation {
    condition     = var.node_disk_size_gib >= 20 && var.node_disk_size_gib <= 16384 && floor(var.node_disk_size_gib) == var.node_disk_size_gib
    error_message = "node_disk_size_gib must be a whole number from 20 (the size of the image) to 16384."
  }
}

variable "tags" {
  description = "Tags for every resource of the module, for the nodes and for their disks. The provider's default tags reach neither nodes nor disks."
  type        = map(string)
  default     = {}
  nullable    = false
}
