package terraformenv

import (
	"fmt"

	"github.com/kubeopera/platform/shared/api"
)

// goldenEnvironments are the environments of the golden files, by folder.
func goldenEnvironments() map[string]Environment {
	smallest := Environment{
		Name:               "acme-prod",
		StateBucket:        "kubeopera-terraform-state-acme-prod",
		StateKey:           "terraform.tfstate",
		Topology:           api.TopologyEKS,
		Region:             "eu-west-1",
		KubernetesVersion:  "1.35",
		VPCCIDR:            "10.0.0.0/16",
		WorkerCount:        2,
		WorkerMin:          2,
		WorkerMax:          2,
		WorkerInstanceType: "t3.large",
		PublicAccess:       true,
		AllowedCIDRs:       []string{"203.0.113.0/24"},
	}

	full := smallest
	full.ClusterName = "acme"
	full.AvailabilityZones = []string{"eu-west-1b", "eu-west-1a", "eu-west-1c"}
	full.WorkerMin, full.WorkerCount, full.WorkerMax = 1, 3, 10
	full.WorkerInstanceType = "m7g.xlarge"
	full.VPCCIDR = "10.20.30.0/24"
	full.AllowedCIDRs = []string{"203.0.113.0/24", "198.51.100.7/32"}
	full.AdminPrincipalARN = "arn:aws:iam::111122223333:role/team/platform-admins"
	full.Tags = map[string]string{
		"team":        "Platform Engineering",
		"cost-center": "42",
		"équipe":      "plateforme été",
		"path":        "a/b:c=d+e@f",
	}

	govcloud := smallest
	govcloud.Region = "us-gov-west-1"
	govcloud.AdminPrincipalARN = "arn:aws-us-gov:iam::111122223333:role/admins"

	private := smallest
	private.PublicAccess = false
	private.AllowedCIDRs = nil

	peered := private
	peered.AllowedCIDRs = []string{"10.8.0.0/16", "192.168.10.0/24"}

	// What no caller could send, and what must still be data: the real
	// Terraform reads it back as such.
	hostile := smallest
	hostile.Tags = map[string]string{
		"owner":     `${file("/etc/passwd")}`,
		"directive": `%{ for x in [1] }a%{ endfor }`,
		"quote":     "a\"\n}\nresource \"x\" \"y\" {",
		"${key}":    `$${escaped} %%{escaped} \ back\slash`,
		"heredoc":   "<<EOT\n$${x}\nEOT\n",
		"control":   "nul\x00 bell\a tab\t cr\r bom\ufeff line\u2028end",
	}

	vanilla := Environment{
		Name:                     "acme-prod",
		StateBucket:              "kubeopera-terraform-state-acme-prod",
		StateKey:                 "terraform.tfstate",
		Topology:                 api.TopologyVanillaKubeadm,
		Region:                   "eu-west-1",
		KubernetesVersion:        "1.36.3",
		VPCCIDR:                  "10.0.0.0/16",
		ControlPlaneCount:        1,
		ControlPlaneInstanceType: "t3.medium",
		WorkerCount:              2,
		WorkerMin:                2,
		WorkerMax:                2,
		WorkerInstanceType:       "t3.large",
		PublicAccess:             true,
		AllowedCIDRs:             []string{"203.0.113.0/24"},
	}

	vanillaPrivate := vanilla
	vanillaPrivate.PublicAccess = false
	vanillaPrivate.AllowedCIDRs = nil

	vanillaThree := vanilla
	vanillaThree.ControlPlaneCount = 3

	vanillaFive := vanillaPrivate
	vanillaFive.ControlPlaneCount = 5
	vanillaFive.AllowedCIDRs = []string{"10.8.0.0/16", "192.168.10.0/24"}

	// The longest name there is: a bucket's name has no room for more.
	vanillaFull := vanillaThree
	vanillaFull.Name = "internal-acme-production-in-the-far-we"
	vanillaFull.StateBucket = "kubeopera-terraform-state-" + vanillaFull.Name
	vanillaFull.ClusterName = "acme"
	vanillaFull.AvailabilityZones = full.AvailabilityZones
	vanillaFull.WorkerMin, vanillaFull.WorkerCount, vanillaFull.WorkerMax = 0, 3, 10
	vanillaFull.ControlPlaneInstanceType = "m7g.large"
	vanillaFull.WorkerInstanceType = "m7g.xlarge"
	vanillaFull.VPCCIDR = "192.168.0.0/20"
	vanillaFull.PodCIDR = "10.32.0.0/14"
	vanillaFull.AllowedCIDRs = full.AllowedCIDRs
	vanillaFull.Tags = full.Tags

	vanillaHostile := vanillaThree
	vanillaHostile.Tags = hostile.Tags

	return map[string]Environment{
		"vanilla":         vanilla,
		"vanilla-private": vanillaPrivate,
		"vanilla-three":   vanillaThree,
		"vanilla-five":    vanillaFive,
		"vanilla-full":    vanillaFull,
		"vanilla-hostile": vanillaHostile,

		"smallest": smallest,
		"full":     full,
		"govcloud": govcloud,
		"private":  private,
		"peered":   peered,
		"hostile":  hostile,
	}
}

// manyTags returns n tags.
func manyTags(n int) map[string]string {
	tags := make(map[string]string, n)
	for i := range n {
		tags[fmt.Sprintf("key-%d", i)] = "value"
	}
	return tags
}
