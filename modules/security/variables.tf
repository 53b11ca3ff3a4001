variable "name" {
  description = "Name of the environment; the security groups are named after it."
  type        = string
  nullable    = false

  # AWS takes 255 characters, of which the longest suffix needs 14, and no name
  # that looks like a group's id.
  validation {
    condition     = can(regex("^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$", var.name)) && !startswith(var.name, "sg-")
    error_message = "name must be 1 to 100 letters, digits, dots, underscores and hyphens, start with a letter or digit, and not start with sg-."
  }
}

variable "cluster_name" {
  description = "Name of the Kubernetes cluster. The nodes' group carries its kubernetes.io/cluster/<name> tag, by which the cloud controller finds it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must be 1 to 100 lower-case letters, digits and hyphens, and start with a letter or digit."
  }
}

variable "vpc_id" {
  description = "Id of the VPC."
  type        = string
  nullable    = false
}

variable "load_balancer" {
  description = "Make the groups of a load balancer before the API: with more than one control plane. Without, the API is reached at the control plane itself."
  type        = bool
  nullable    = false
}

variable "api_internal_cidrs" {
  description = "IPv4 ranges that may reach the API inside the VPC, beside the nodes."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for cidr in var.api_internal_cidrs : can(cidrhost(cidr, 0)) && !strcontains(cidr, ":")])
    error_message = "api_internal_cidrs must be IPv4 ranges, such as 10.0.0.0/16."
  }
}

variable "api_public" {
  description = "Serve the API on a public address as well."
  type        = bool
  default     = false
  nullable    = false
}

variable "api_public_cidrs" {
  description = "IPv4 ranges that may reach the API at its public address. The whole internet is 0.0.0.0/0, and only if written so."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = !var.api_public || length(var.api_public_cidrs) > 0
    error_message = "api_public_cidrs must not be empty when api_public is true: nobody could reach the public address."
  }

  validation {
    condition     = alltrue([for cidr in var.api_public_cidrs : can(cidrhost(cidr, 0)) && !strcontains(cidr, ":")])
    error_message = "api_public_cidrs must be IPv4 ranges, such as 203.0.113.0/24."
  }
}

variable "node_port_cidrs" {
  description = "IPv4 ranges that may reach the NodePorts of Services. Load balancers that the cluster makes by itself need none: the cloud controller lets them in."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for cidr in var.node_port_cidrs : can(cidrhost(cidr, 0)) && !strcontains(cidr, ":")])
    error_message = "node_port_cidrs must be IPv4 ranges, such as 10.0.0.0/16."
  }
}

variable "tags" {
  description = "Tags for every resource of the module, beside the provider's default tags."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = !anytrue([for key in keys(var.tags) : startswith(key, "kubernetes.io/cluster/")])
    error_message = "tags must have no kubernetes.io/cluster/ key: exactly one group may carry that of the cluster, and the module sets it."
  }
}
