# Rendered by cluster-provisioner, again for every run: changes made here are lost.

output "api_endpoint_internal" {
  description = "URL of the Kubernetes API for nodes and the VPC."
  value       = module.compute.api_endpoint
}

output "api_endpoint_public" {
  description = "URL of the Kubernetes API for the outside; empty if there is none."
  value       = "https://${aws_lb.api_public.dns_name}:6443"
}

output "parameter_prefix" {
  description = "What the names of the parameters begin with through which nodes talk."
  value       = "/kubeopera/acme-prod"
}

output "control_plane_count" {
  description = "Number of control planes."
  value       = 3
}

output "control_plane_instance_ids" {
  description = "Instances of the control planes, by index; what another instance reported is out of date."
  value       = module.compute.control_plane_instance_ids
}
