# Whoever takes a group's id from here is created after its rules: a machine that
# starts before it may leave the VPC only waits.
output "node_security_group_id" {
  description = "Id of the group of all nodes, the only one with the cluster's tag."
  value       = aws_security_group.nodes.id

  depends_on = [aws_vpc_security_group_egress_rule.nodes, aws_vpc_security_group_ingress_rule.nodes]
}

output "control_plane_security_group_id" {
  description = "Id of the group that control planes have beside the nodes' group."
  value       = aws_security_group.control_plane.id

  depends_on = [aws_vpc_security_group_ingress_rule.etcd, aws_vpc_security_group_ingress_rule.api_from_nodes]
}

output "api_internal_security_group_id" {
  description = "Id of the group of the load balancer inside the VPC; null without one."
  value       = one(aws_security_group.api_internal[*].id)

  depends_on = [aws_vpc_security_group_egress_rule.load_balancer, aws_vpc_security_group_ingress_rule.api_internal_from_nodes]
}

output "api_public_security_group_id" {
  description = "Id of the group of the public load balancer; null without one."
  value       = one(aws_security_group.api_public[*].id)

  depends_on = [aws_vpc_security_group_egress_rule.load_balancer, aws_vpc_security_group_ingress_rule.api_public]
}
