package s3

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"slices"
)

// checkXML accepts one well-formed document.
func checkXML(body []byte) error {
	decoder := xml.NewDecoder(bytes.NewReader(body))
	elements := 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return malformedXML()
		}
		if _, ok := token.(xml.StartElement); ok {
			elements++
		}
	}
	if elements == 0 {
		return malformedXML()
	}
	return nil
}

func checkEncryption(body []byte) error {
	var cfg struct {
		XMLName xml.Name `xml:"ServerSideEncryptionConfiguration"`
		Rules   []struct {
			Default struct {
				SSEAlgorithm   string
				KMSMasterKeyID string
			} `xml:"ApplyServerSideEncryptionByDefault"`
		} `xml:"Rule"`
	}
	if err := xml.Unmarshal(body, &cfg); err != nil || len(cfg.Rules) != 1 {
		return malformedXML()
	}
	rule := cfg.Rules[0].Default
	if !slices.Contains([]string{"AES256", "aws:kms", "aws:kms:dsse"}, rule.SSEAlgorithm) {
		return malformedXML()
	}
	if rule.SSEAlgorithm == "AES256" && rule.KMSMasterKeyID != "" {
		return refuse(http.StatusBadRequest, "InvalidArgument", "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms")
	}
	return nil
}

func checkPublicAccessBlock(body []byte) error {
	var cfg struct {
		XMLName                                                                     xml.Name `xml:"PublicAccessBlockConfiguration"`
		BlockPublicAcls, IgnorePublicAcls, BlockPublicPolicy, RestrictPublicBuckets *bool
	}
	if err := xml.Unmarshal(body, &cfg); err != nil {
		return malformedXML()
	}
	return nil
}

func checkOwnership(body []byte) error {
	var cfg struct {
		XMLName xml.Name                           `xml:"OwnershipControls"`
		Rules   []struct{ ObjectOwnership string } `xml:"Rule"`
	}
	if err := xml.Unmarshal(body, &cfg); err != nil || len(cfg.Rules) != 1 ||
		!slices.Contains([]string{"BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"}, cfg.Rules[0].ObjectOwnership) {
		return malformedXML()
	}
	return nil
}

func checkPolicy(body []byte) error {
	var policy struct {
		Version   string
		Statement []struct {
			Effect    string
			Principal any
			Action    any
			NotAction any
			Resource  any
		}
	}
	malformed := func(why string) error { return refuse(http.StatusBadRequest, "MalformedPolicy", why) }
	if err := json.Unmarshal(body, &policy); err != nil {
		return malformed("Policies must be valid JSON and the first byte must be '{'")
	}
	if len(policy.Statement) == 0 {
		return malformed("Missing required field Statement")
	}
	for _, statement := range policy.Statement {
		switch {
		case statement.Effect != "Allow" && statement.Effect != "Deny":
			return malformed("Missing required field Effect")
		case statement.Principal == nil:
			return malformed("Missing required field Principal")
		case statement.Action == nil && statement.NotAction == nil:
			return malformed("Missing required field Action")
		case statement.Resource == nil:
			return malformed("Missing required field Resource")
		}
	}
	return nil
}

func checkLifecycle(body []byte) error {
	type action struct {
		Days                      *int
		Date                      string
		ExpiredObjectDeleteMarker *bool
	}
	var cfg struct {
		XMLName xml.Name `xml:"LifecycleConfiguration"`
		Rules   []struct {
			ID          string
			Status      string
			Filter      *struct{ Prefix *string }
			Prefix      *string
			Expiration  *action
			Transitions []action `xml:"Transition"`
			Noncurrent  *struct {
				NoncurrentDays          int
				NewerNoncurrentVersions int
			} `xml:"NoncurrentVersionExpiration"`
			NoncurrentTransitions []struct{ NoncurrentDays int }     `xml:"NoncurrentVersionTransition"`
			Abort                 *struct{ DaysAfterInitiation int } `xml:"AbortIncompleteMultipartUpload"`
		} `xml:"Rule"`
	}
	if err := xml.Unmarshal(body, &cfg); err != nil || len(cfg.Rules) == 0 {
		return malformedXML()
	}
	invalid := func(why string) error { return refuse(http.StatusBadRequest, "InvalidArgument", why) }
	seen := map[string]bool{}
	for _, rule := range cfg.Rules {
		switch {
		case rule.Status != "Enabled" && rule.Status != "Disabled", rule.Filter == nil && rule.Prefix == nil:
			return malformedXML()
		case rule.ID != "" && seen[rule.ID]:
			return invalid("Rule ID must be unique. Found same ID for more than one rule")
		case len(rule.ID) > 255:
			return invalid("ID length should not exceed allowed limit of 255")
		case rule.Expiration == nil && rule.Noncurrent == nil && rule.Abort == nil &&
			len(rule.Transitions) == 0 && len(rule.NoncurrentTransitions) == 0:
			return refuse(http.StatusBadRequest, "InvalidRequest", "At least one action needs to be specified in a rule")
		case rule.Expiration != nil && rule.Expiration.Days != nil && *rule.Expiration.Days <= 0,
			rule.Noncurrent != nil && rule.Noncurrent.NoncurrentDays <= 0,
			rule.Abort != nil && rule.Abort.DaysAfterInitiation <= 0:
			return invalid("'Days' for an action must be a positive integer")
		case rule.Expiration != nil && rule.Expiration.Days != nil && rule.Expiration.ExpiredObjectDeleteMarker != nil:
			return malformedXML()
		}
		seen[rule.ID] = true
	}
	return nil
}

type tag struct {
	Key   string
	Value string
}

type tagging struct {
	XMLName xml.Name `xml:"Tagging"`
	Tags    []tag    `xml:"TagSet>Tag"`
}

func checkTagging(body []byte) error {
	var cfg tagging
	if err := xml.Unmarshal(body, &cfg); err != nil {
		return malformedXML()
	}
	seen := map[string]bool{}
	for _, t := range cfg.Tags {
		if t.Key == "" || len(t.Key) > 128 || len(t.Value) > 256 || seen[t.Key] || len(cfg.Tags) > 50 {
			return refuse(http.StatusBadRequest, "InvalidTag", "The tag provided was not a valid tag")
		}
		seen[t.Key] = true
	}
	return nil
}
