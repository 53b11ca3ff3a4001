# Rendered by cluster-provisioner, again for every run: changes made here are lost.

variable "credential_principal_arn" {
  description = "ARN of the IAM role or user whose credential Terraform runs with; it administers the cluster."
  type        = string
  nullable    = false
}
