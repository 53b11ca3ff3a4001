variable "cluster_name" {
  description = "Name of the Kubernetes cluster; machines, IAM roles and the workers' group are named after it."
  type        = string
  nullable    = false

  # Lower case: names that kubeadm puts into certificates and endpoints must be.
  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", var.cluster_name))
    error_message = "cluster_name must be 1 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends."
  }
}

variable "kubernetes_version" {
  description = "Kubernetes version of the nodes, major.minor.patch. Nodes that exist keep theirs."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^1\\.[0-9]{2}\\.[0-9]{1,2}$", var.kubernetes_version))
    error_message = "kubernetes_version must be major.minor.patch without a leading v, such as 1.36.3."
  }

  validation {
    condition     = contains(local.kubernetes_minors, join(".", slice(split(".", "${var.kubernetes_version}.."), 0, 2)))
    error_message = "kubernetes_version must be of a minor version that bootstrap/versions.env knows: ${join(", ", local.kubernetes_minors)}."
  }
}

variable "parameters" {
  description = "Systems Manager parameters through which nodes talk, by their names below the common prefix; README.md lists them. Given as the resources, they exist before the machines."
  type        = map(object({ name = string }))
  nullable    = false

  validation {
    condition = length(setsubtract(concat(
      ["admin_kubeconfig", "ca_cert_hash", "cluster_state", "join_token", "k8s_api_endpoint"],
      var.control_plane_count > 1 ? ["k8s_certificate_key"] : [],
      [for index in range(var.control_plane_count) : "bootstrap_status/control-plane-${index}"],
      [for index in range(var.control_plane_count) : "control_plane_joined/${index}"],
    ), keys(var.parameters))) == 0
    error_message = "parameters must have admin_kubeconfig, ca_cert_hash, cluster_state, join_token, k8s_api_endpoint, with more than one control plane k8s_certificate_key, and for each control plane bootstrap_status/control-plane-<index> and control_plane_joined/<index>."
  }

  validation {
    condition = alltrue([
      for key, parameter in var.parameters : can(regex("^(/[a-zA-Z0-9_.-]+){2,9}$", parameter.name)) && endswith(parameter.name, "/${key}") &&
      trimsuffix(parameter.name, "/${key}") == trimsuffix(try(var.parameters["join_token"].name, ""), "/join_token")
    ])
    error_message = "parameters must all be below one prefix, each under its key, such as /kubeopera/acme-prod/join_token."
  }
}

variable "control_plane_subnet_ids" {
  description = "Ids of the subnets of the control planes, which are spread over them in order: private, or public with control_plane_elastic_ip."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.control_plane_subnet_ids) >= 1
    error_message = "control_plane_subnet_ids must name at least one subnet."
  }
}

variable "worker_subnet_ids" {
  description = "Ids of the private subnets of the workers."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.worker_subnet_ids) >= 1
    error_message = "worker_subnet_ids must name at least one subnet."
  }
}

variable "node_security_group_id" {
  description = "Id of the security group of all nodes, the only one with the cluster's tag."
  type        = string
  nullable    = false
}

variable "control_plane_security_group_id" {
  description = "Id of the security group that control planes have beside it."
  type        = string
  nullable    = false
}

variable "enable_self_bootstrap_control_plane" {
  description = "Let the control planes make the cluster by themselves. Otherwise they start with a placeholder as user data, to be set up from outside. Workers join by themselves in either case."
  type        = bool
  default     = false
  nullable    = false
}

variable "control_plane_count" {
  description = "Number of control planes: 1, 3 or 5."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = contains([1, 3, 5], var.control_plane_count)
    error_message = "control_plane_count must be 1, 3 or 5: an even number of members survives no more failures than one less."
  }
}

variable "control_plane_endpoint_override" {
  description = "DNS name at which nodes reach the API, without a port: that of a load balancer in the VPC. Required with more than one control plane; null takes the address of the only one."
  type        = string
  default     = null

  validation {
    condition     = var.control_plane_count == 1 || var.control_plane_endpoint_override != null
    error_message = "control_plane_endpoint_override is required when control_plane_count is greater than 1: otherwise the whole cluster would depend on the first control plane."
  }

  validation {
    condition     = var.control_plane_endpoint_override == null || can(regex("^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?$", var.control_plane_endpoint_override))
    error_message = "control_plane_endpoint_override must be a DNS name or an IPv4 address, without https:// and without a port."
  }
}

variable "api_server_cert_sans" {
  description = "More names and addresses at which the API is reached, for its certificate: those of a public load balancer, for instance."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for name in var.api_server_cert_sans : can(regex("^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?$", name))])
    error_message = "api_server_cert_sans must be DNS names and IPv4 addresses."
  }
}

variable "control_plane_elastic_ip" {
  description = "Elastic IP of the only control plane, which then belongs into a public subnet; null for none."
  type = object({
    allocation_id = string
    public_ip     = string
  })
  default = null

  validation {
    condition     = var.control_plane_elastic_ip == null || var.control_plane_count == 1
    error_message = "control_plane_elastic_ip is for one control plane: more of them are reached through a load balancer."
  }
}

variable "control_plane_instance_type" {
  description = "EC2 instance type of the control planes, x86 or Arm, with at least 2 processors and 1700 MB. Changing it restarts them all at once."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9-]+\\.[a-z0-9-]+$", var.control_plane_instance_type))
    error_message = "control_plane_instance_type must be an EC2 instance type, such as t3.medium."
  }
}

variable "control_plane_disk_size_gib" {
  description = "Size of a control plane's root disk in GiB; etcd is on it."
  type        = number
  default     = 50
  nullable    = false

  validation {
    condition     = var.control_plane_disk_size_gib >= 20 && var.control_plane_disk_size_gib <= 16384 && floor(var.control_plane_disk_size_gib) == var.control_plane_disk_size_gib
    error_message = "control_plane_disk_size_gib must be a whole number from 20 to 16384."
  }
}

variable "worker_instance_type" {
  description = "EC2 instance type of the workers, x86 or Arm. Workers that exist keep theirs."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9-]+\\.[a-z0-9-]+$", var.worker_instance_type))
    error_message = "worker_instance_type must be an EC2 instance type, such as t3.large."
  }
}

variable "worker_count" {
  description = "Workers to start with. Afterwards the group keeps the number that it has, which an autoscaler may have chosen, moved by AWS into the range of worker_min and worker_max."
  type        = number
  nullable    = false

  validation {
    condition     = var.worker_count >= 0 && floor(var.worker_count) == var.worker_count
    error_message = "worker_count must be a whole number, not negative."
  }

  validation {
    condition     = var.worker_min <= var.worker_count && var.worker_count <= var.worker_max
    error_message = "worker_count must not be below worker_min or above worker_max."
  }
}

variable "worker_min" {
  description = "Fewest workers of the group."
  type        = number
  nullable    = false

  validation {
    condition     = var.worker_min >= 0 && floor(var.worker_min) == var.worker_min
    error_message = "worker_min must be a whole number, not negative."
  }
}

variable "worker_max" {
  description = "Most workers of the group."
  type        = number
  nullable    = false

  validation {
    condition     = var.worker_max >= 0 && floor(var.worker_max) == var.worker_max
    error_message = "worker_max must be a whole number, not negative."
  }
}

variable "worker_disk_size_gib" {
  description = "Size of a worker's root disk in GiB; container images and logs are kept on it."
  type        = number
  default     = 50
  nullable    = false

  validation {
    condition     = var.worker_disk_size_gib >= 20 && var.worker_disk_size_gib <= 16384 && floor(var.worker_disk_size_gib) == var.worker_disk_size_gib
    error_message = "worker_disk_size_gib must be a whole number from 20 to 16384."
  }
}

variable "pod_cidr" {
  description = "IPv4 range of pods. It must overlap neither the VPC's nor that of Services, nor any network that pods talk to."
  type        = string
  default     = "192.168.0.0/16"
  nullable    = false

  # Calico gives each node a /26 at first.
  validation {
    condition     = try(cidrhost(var.pod_cidr, 0) == split("/", var.pod_cidr)[0] && tonumber(split("/", var.pod_cidr)[1]) <= 22, false)
    error_message = "pod_cidr must be an IPv4 network without host bits, /22 or larger, such as 192.168.0.0/16."
  }
}

variable "service_cidr" {
  description = "IPv4 range of Services. It must overlap neither the VPC's nor that of pods."
  type        = string
  default     = "10.96.0.0/12"
  nullable    = false

  # kubeadm wants at least 8 bits, and the API server takes at most 20.
  validation {
    condition     = try(cidrhost(var.service_cidr, 0) == split("/", var.service_cidr)[0] && tonumber(split("/", var.service_cidr)[1]) >= 12 && tonumber(split("/", var.service_cidr)[1]) <= 24, false)
    error_message = "service_cidr must be an IPv4 network without host bits, /12 to /24, such as 10.96.0.0/12."
  }
}

variable "ubuntu_version" {
  description = "Ubuntu LTS release of new machines: 24.04 or 22.04."
  type        = string
  default     = "24.04"
  nullable    = false

  validation {
    condition     = contains(["22.04", "24.04"], var.ubuntu_version)
    error_message = "ubuntu_version must be 24.04 or 22.04."
  }
}

variable "control_plane_ami_id" {
  description = "Image of new control planes in place of Canonical's newest; Ubuntu of a supported release."
  type        = string
  default     = null
}

variable "worker_ami_id" {
  description = "Image of new workers in place of Canonical's newest; Ubuntu of a supported release."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags for every resource of the module, for the machines and for their disks. The provider's default tags reach neither workers nor disks."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = !anytrue([for key in keys(var.tags) : startswith(key, "kubernetes.io/cluster/")])
    error_message = "tags must have no kubernetes.io/cluster/ key: machines may carry exactly one, and the module sets it."
  }
}
