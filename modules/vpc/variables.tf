variable "name" {
  description = "Name of the VPC; its subnets, gateways and route tables are named after it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$", var.name))
    error_message = "name must be 1 to 100 letters, digits, dots, underscores and hyphens, and start with a letter or digit."
  }
}

variable "cluster_name" {
  description = "Name of the Kubernetes cluster that uses the VPC. Subnets carry its kubernetes.io/cluster/<name> tag, by which controllers in the cluster find them."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-zA-Z0-9][a-zA-Z0-9_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must be 1 to 100 letters, digits, underscores and hyphens, and start with a letter or digit."
  }
}

variable "cidr_block" {
  description = "Private IPv4 range of the VPC, /16 to /24. Changing it replaces the VPC."
  type        = string
  nullable    = false

  # cidrhost gives the network address, so that host bits (10.0.0.5/16) are an
  # error here and not, later, one of the EC2 API.
  validation {
    condition     = can(cidrhost(var.cidr_block, 0)) && try(cidrhost(var.cidr_block, 0) == split("/", var.cidr_block)[0], false)
    error_message = "cidr_block must be an IPv4 network without host bits, such as 10.0.0.0/16."
  }

  validation {
    condition     = try(tonumber(split("/", var.cidr_block)[1]) >= 16 && tonumber(split("/", var.cidr_block)[1]) <= 24, false)
    error_message = "cidr_block must be /16 to /24: AWS allows no larger VPC, and a smaller one has no room for the subnets."
  }
}

variable "availability_zones" {
  description = "One to six zones to use, in this order; null takes the first three zones of the region. A zone's place in the list decides its address ranges: append to it, but change nothing else."
  type        = list(string)
  default     = null

  validation {
    condition     = var.availability_zones == null || try(length(var.availability_zones) >= 1 && length(var.availability_zones) <= 6, false)
    error_message = "availability_zones must name one to six zones, or be null."
  }

  validation {
    condition     = var.availability_zones == null || try(length(distinct(var.availability_zones)) == length(var.availability_zones), false)
    error_message = "availability_zones must not name a zone twice."
  }

  # A smaller VPC is cut into quarters, one for each of three zones (main.tf).
  validation {
    condition     = try(length(var.availability_zones), 0) <= 3 || try(tonumber(split("/", var.cidr_block)[1]) <= 20, false)
    error_message = "More than three availability_zones need a cidr_block of /20 or larger."
  }
}

variable "single_nat_gateway" {
  description = "Use one NAT gateway for all zones in place of one per zone. Cheaper, and it takes one elastic IP; but when its zone fails, the nodes of all zones lose the internet."
  type        = bool
  default     = false
  nullable    = false
}

variable "tags" {
  description = "Tags for every resource of the module, beside the provider's default tags."
  type        = map(string)
  default     = {}
  nullable    = false
}
