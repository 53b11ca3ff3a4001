# Rendered by cluster-provisioner, again for every run: changes made here are lost.

output "cluster_name" {
  description = "Name of the EKS cluster."
  value       = module.eks.cluster_name
}

output "cluster_endpoint" {
  description = "URL of the Kubernetes API."
  value       = module.eks.cluster_endpoint
}

output "cluster_ca_certificate" {
  description = "Certificate of the CA of the Kubernetes API: PEM, in base64."
  value       = module.eks.cluster_ca_certificate
}
