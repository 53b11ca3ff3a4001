output "vpc_id" {
  description = "Id of the VPC."
  value       = aws_vpc.this.id
}

output "cidr_block" {
  description = "IPv4 range of the VPC."
  value       = aws_vpc.this.cidr_block
}

output "availability_zones" {
  description = "Zones in use, in the order of the subnets."
  value       = local.zone_list
}

# The subnets are of use only with their routes. Whoever takes the ids from here
# is created after the routes and, more important, destroyed before them: nodes
# that cannot reach AWS any more leave network interfaces behind.
output "private_subnet_ids" {
  description = "Ids of the private subnets, one per zone."
  value       = [for zone in local.zone_list : aws_subnet.private[zone].id]

  depends_on = [aws_route.nat, aws_route_table_association.private]
}

output "public_subnet_ids" {
  description = "Ids of the public subnets, one per zone."
  value       = [for zone in local.zone_list : aws_subnet.public[zone].id]

  depends_on = [aws_route.internet, aws_route_table_association.public]
}

output "nat_public_ips" {
  description = "Public IPv4 addresses from which the private subnets reach the internet."
  value       = [for zone in local.zone_list : aws_eip.nat[zone].public_ip if contains(local.nat_zones, zone)]
}
