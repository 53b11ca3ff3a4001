package emulator

import "regexp"

// mending corrects one answer of the emulator.
type mending struct {
	answer string // a text by which the answer is known
	apply  func(body []byte) []byte
}

// templateTags are the tags of a launch template, in the data of its version.
var templateTags = regexp.MustCompile(`(?s)<item>\s*<resourceType>launch-template</resourceType>\s*<tagSet>.*?</tagSet>\s*</item>`)

// mendings are for moto 5.2.
var mendings = []mending{
	{
		// moto adds a launch template's own tags to the tag specifications inside
		// its data, which Terraform then wants to remove at every plan.
		answer: "<DescribeLaunchTemplateVersionsResponse",
		apply:  func(body []byte) []byte { return templateTags.ReplaceAll(body, nil) },
	},
}
