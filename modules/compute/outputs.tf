output "control_plane_instance_ids" {
  description = "Instance ids of the control planes, by index."
  value       = aws_instance.control_plane[*].id
}

output "control_plane_private_ips" {
  description = "Private IPv4 addresses of the control planes, by index."
  value       = aws_instance.control_plane[*].private_ip
}

output "api_endpoint" {
  description = "URL at which nodes reach the Kubernetes API."
  value       = "https://${var.control_plane_endpoint_override != null ? lower(var.control_plane_endpoint_override) : aws_instance.control_plane[0].private_ip}:6443"
}

output "worker_group_name" {
  description = "Name of the workers' Auto Scaling group."
  value       = aws_autoscaling_group.workers.name
}

output "control_plane_role_arn" {
  description = "ARN of the control planes' IAM role."
  value       = aws_iam_role.control_plane.arn
}

output "worker_role_arn" {
  description = "ARN of the workers' IAM role."
  value       = aws_iam_role.worker.arn
}
