# A VPC for one Kubernetes cluster: in every zone a private subnet for nodes and
# a public one for load balancers and NAT gateways.

# The list has no filter on the state of the zones: a zone that is out for an
# hour must not make the next plan move subnets. Local Zones and Wavelength
# Zones are left out by the opt-in filter. The excluded ids are the zones in
# which EKS cannot place a control plane.
data "aws_availability_zones" "this" {
  exclude_zone_ids = ["use1-az3", "usw1-az2", "cac1-az3"]

  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required", "opted-in"]
  }

  filter {
    name   = "zone-type"
    values = ["availability-zone"]
  }
}

locals {
  zone_list = var.availability_zones != null ? var.availability_zones : slice(
    data.aws_availability_zones.this.names, 0, min(3, length(data.aws_availability_zones.this.names))
  )

  # A zone's place in the list decides its ranges, so that appending a zone moves
  # no subnet. A VPC of /20 or larger is cut into eighths, a smaller one into
  # quarters: one for the private subnet of each zone, the last quarter of the VPC
  # for the public subnets, each a quarter of a private one. A /24 thus has three
  # /26 and three /28, the smallest subnet that AWS allows.
  #
  #   10.0.0.0/16   private /19 0..5 of 8   public /21 24..29 of 32
  #   10.0.0.0/24   private /26 0..2 of 4   public /28 12..14 of 16
  private_newbits = tonumber(split("/", var.cidr_block)[1]) <= 20 ? 3 : 2
  public_newbits  = local.private_newbits + 2
  public_offset   = 3 * pow(2, local.private_newbits)

  zones = {
    for i, zone in local.zone_list : zone => {
      private_cidr = cidrsubnet(var.cidr_block, local.private_newbits, i)
      public_cidr  = cidrsubnet(var.cidr_block, local.public_newbits, local.public_offset + i)
    }
  }

  nat_zones = toset(var.single_nat_gateway ? slice(local.zone_list, 0, 1) : local.zone_list)

  cluster_tag = { "kubernetes.io/cluster/${var.cluster_name}" = "shared" }
}

resource "aws_vpc" "this" {
  cidr_block = var.cidr_block

  # Nodes are known by their private DNS names.
  enable_dns_support   = true
  enable_dns_hostnames = true

  tags = merge(var.tags, { Name = var.name })
}

# Adopts the group that AWS makes with the VPC and takes all rules from it, so
# that whatever is started without a group of its own reaches nothing.
resource "aws_default_security_group" "this" {
  vpc_id = aws_vpc.this.id

  tags = merge(var.tags, { Name = "${var.name}-default-unused" })
}

resource "aws_subnet" "public" {
  for_each = local.zones

  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = each.value.public_cidr

  tags = merge(var.tags, local.cluster_tag, {
    Name                     = "${var.name}-public-${each.key}"
    "kubernetes.io/role/elb" = "1"
  })
}

resource "aws_subnet" "private" {
  for_each = local.zones

  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = each.value.private_cidr

  tags = merge(var.tags, local.cluster_tag, {
    Name                              = "${var.name}-private-${each.key}"
    "kubernetes.io/role/internal-elb" = "1"
  })
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id

  tags = merge(var.tags, { Name = var.name })
}

resource "aws_route_table" "public" {
  vpc_id = aws_vpc.this.id

  tags = merge(var.tags, { Name = "${var.name}-public" })
}

resource "aws_route" "internet" {
  route_table_id         = aws_route_table.public.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this.id
}

resource "aws_route_table_association" "public" {
  for_each = local.zones

  subnet_id      = aws_subnet.public[each.key].id
  route_table_id = aws_route_table.public.id
}

resource "aws_eip" "nat" {
  for_each = local.nat_zones

  domain = "vpc"

  tags = merge(var.tags, { Name = "${var.name}-nat-${each.key}" })

  depends_on = [aws_internet_gateway.this]
}

resource "aws_nat_gateway" "this" {
  for_each = local.nat_zones

  allocation_id = aws_eip.nat[each.key].id
  subnet_id     = aws_subnet.public[each.key].id

  tags = merge(var.tags, { Name = "${var.name}-${each.key}" })

  depends_on = [aws_route.internet]
}

# A table per zone even with a single gateway: changing between one and many
# then changes routes only.
resource "aws_route_table" "private" {
  for_each = local.zones

  vpc_id = aws_vpc.this.id

  tags = merge(var.tags, { Name = "${var.name}-private-${each.key}" })
}

resource "aws_route" "nat" {
  for_each = local.zones

  route_table_id         = aws_route_table.private[each.key].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[var.single_nat_gateway ? local.zone_list[0] : each.key].id
}

resource "aws_route_table_association" "private" {
  for_each = local.zones

  subnet_id      = aws_subnet.private[each.key].id
  route_table_id = aws_route_table.private[each.key].id
}
