package emulator

import (
	"bytes"
	"regexp"
)

// mending corrects one answer of the emulator.
type mending struct {
	answer string // a text by which the answer is known
	apply  func(body []byte, region string) []byte
}

// templateTags are the tags of a launch template, in the data of its version.
var templateTags = regexp.MustCompile(`(?s)<item>\s*<resourceType>launch-template</resourceType>\s*<tagSet>.*?</tagSet>\s*</item>`)

// privateDomain is that of instances in us-east-1.
var privateDomain = regexp.MustCompile(`<privateDnsName>(ip-[\d-]+)\.ec2\.internal</privateDnsName>`)

// mendings are for moto 5.2.
var mendings = []mending{
	{
		// moto adds a launch template's own tags to the tag specifications inside
		// its data, which Terraform then wants to remove at every plan.
		answer: "<DescribeLaunchTemplateVersionsResponse",
		apply:  func(body []byte, _ string) []byte { return templateTags.ReplaceAll(body, nil) },
	},
	{
		// moto takes instances of Auto Scaling groups for ones in us-east-1.
		answer: "<DescribeInstancesResponse",
		apply: func(body []byte, region string) []byte {
			if region == "us-east-1" || !bytes.Contains(body, []byte(".ec2.internal<")) {
				return body
			}
			return privateDomain.ReplaceAll(body, []byte("<privateDnsName>${1}."+region+".compute.internal</privateDnsName>"))
		},
	},
}
