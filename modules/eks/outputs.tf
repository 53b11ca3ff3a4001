output "cluster_name" {
  description = "Name of the cluster."
  value       = aws_eks_cluster.this.name
}

output "cluster_arn" {
  description = "ARN of the cluster."
  value       = aws_eks_cluster.this.arn
}

output "cluster_endpoint" {
  description = "URL of the Kubernetes API."
  value       = aws_eks_cluster.this.endpoint
}

output "cluster_ca_certificate" {
  description = "Certificate of the CA that signs the Kubernetes API's certificate: PEM, in base64."
  value       = aws_eks_cluster.this.certificate_authority[0].data
}

output "cluster_security_group_id" {
  description = "Id of the security group that control plane and nodes share."
  value       = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
}

output "node_role_arn" {
  description = "ARN of the nodes' IAM role."
  value       = aws_iam_role.nodes.arn
}

output "node_group_name" {
  description = "Name of the node group."
  value       = aws_eks_node_group.workers.node_group_name
}
