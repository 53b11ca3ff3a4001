package provision

import (
	"maps"
	"slices"
	"strings"
)

// Partition is a separate set of AWS accounts and regions; it is the second
// part of every ARN.
type Partition string

// The partitions whose regions this service knows. The isolated ones (aws-iso
// and its kin) are left out: a service outside them cannot reach them.
const (
	PartitionStandard  Partition = "aws"
	PartitionChina     Partition = "aws-cn"
	PartitionGovCloud  Partition = "aws-us-gov"
	PartitionSovereign Partition = "aws-eusc"
)

// regions are the AWS regions that may be asked for, as of late 2026. A new
// region is a line here: the list is the allow-list that keeps anything else
// out of ARNs, endpoints and HCL.
var regions = map[string]Partition{
	"af-south-1":     PartitionStandard, // Cape Town
	"ap-east-1":      PartitionStandard, // Hong Kong
	"ap-east-2":      PartitionStandard, // Taipei
	"ap-northeast-1": PartitionStandard, // Tokyo
	"ap-northeast-2": PartitionStandard, // Seoul
	"ap-northeast-3": PartitionStandard, // Osaka
	"ap-south-1":     PartitionStandard, // Mumbai
	"ap-south-2":     PartitionStandard, // Hyderabad
	"ap-southeast-1": PartitionStandard, // Singapore
	"ap-southeast-2": PartitionStandard, // Sydney
	"ap-southeast-3": PartitionStandard, // Jakarta
	"ap-southeast-4": PartitionStandard, // Melbourne
	"ap-southeast-5": PartitionStandard, // Malaysia
	"ap-southeast-6": PartitionStandard, // New Zealand
	"ap-southeast-7": PartitionStandard, // Thailand
	"ca-central-1":   PartitionStandard, // Montreal
	"ca-west-1":      PartitionStandard, // Calgary
	"eu-central-1":   PartitionStandard, // Frankfurt
	"eu-central-2":   PartitionStandard, // Zurich
	"eu-north-1":     PartitionStandard, // Stockholm
	"eu-south-1":     PartitionStandard, // Milan
	"eu-south-2":     PartitionStandard, // Spain
	"eu-west-1":      PartitionStandard, // Ireland
	"eu-west-2":      PartitionStandard, // London
	"eu-west-3":      PartitionStandard, // Paris
	"il-central-1":   PartitionStandard, // Tel Aviv
	"me-central-1":   PartitionStandard, // Emirates
	"me-south-1":     PartitionStandard, // Bahrain
	"me-west-1":      PartitionStandard, // Saudi Arabia
	"mx-central-1":   PartitionStandard, // Mexico
	"sa-east-1":      PartitionStandard, // São Paulo
	"sa-west-1":      PartitionStandard, // Chile
	"us-east-1":      PartitionStandard, // N. Virginia
	"us-east-2":      PartitionStandard, // Ohio
	"us-west-1":      PartitionStandard, // N. California
	"us-west-2":      PartitionStandard, // Oregon

	"cn-north-1":     PartitionChina, // Beijing
	"cn-northwest-1": PartitionChina, // Ningxia

	"us-gov-east-1": PartitionGovCloud,
	"us-gov-west-1": PartitionGovCloud,

	"eusc-de-east-1": PartitionSovereign, // Brandenburg
}

// PartitionOf is the partition of a region; ok is false for unknown regions.
func PartitionOf(region string) (partition Partition, ok bool) {
	partition, ok = regions[region]
	return partition, ok
}

// knownRegions lists the regions for a message.
func knownRegions() string {
	return strings.Join(slices.Sorted(maps.Keys(regions)), ", ")
}
