package s3

import (
	"bytes"
	"net/http"
	"strings"
)

const xmlns = `xmlns="http://s3.amazonaws.com/doc/2006-03-01/"`

// setting is one kind of bucket configuration, which S3 addresses by a word in
// the query. What was put is given back as it was.
type setting struct {
	query     string
	name      string                  // as in the operation's name, after the verb
	remove    string                  // the name after Delete where it differs
	check     func(body []byte) error // nil: any well-formed XML
	missing   string                  // error code when it was never put; empty: absent is given
	absent    func(b *bucket) string  // the default document
	mediaType string                  // empty: application/xml
	readOnly  bool
}

func (s *setting) operation(method string) string {
	if method == http.MethodDelete && s.remove != "" {
		return "Delete" + s.remove
	}
	return verb(method) + s.name
}

func document(text string) func(*bucket) string { return func(*bucket) string { return text } }

// settings are all kinds; new buckets have the defaults that AWS gives them
// since April 2023.
var settings = []setting{
	{
		query: "encryption", name: "BucketEncryption", check: checkEncryption,
		absent: document(`<ServerSideEncryptionConfiguration ` + xmlns + `><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault><BucketKeyEnabled>false</BucketKeyEnabled></Rule></ServerSideEncryptionConfiguration>`),
	},
	{
		query: "publicAccessBlock", name: "PublicAccessBlock", check: checkPublicAccessBlock,
		absent: document(`<PublicAccessBlockConfiguration ` + xmlns + `><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>`),
	},
	{
		query: "ownershipControls", name: "BucketOwnershipControls", check: checkOwnership,
		absent: func(*bucket) string { return ownershipXML("BucketOwnerEnforced") },
	},
	{query: "policyStatus", name: "BucketPolicyStatus", readOnly: true, absent: document(`<PolicyStatus ` + xmlns + `><IsPublic>FALSE</IsPublic></PolicyStatus>`)},
	{query: "policy", name: "BucketPolicy", check: checkPolicy, missing: "NoSuchBucketPolicy", mediaType: "application/json"},
	{query: "lifecycle", name: "BucketLifecycleConfiguration", remove: "BucketLifecycle", check: checkLifecycle, missing: "NoSuchLifecycleConfiguration"},
	{query: "tagging", name: "BucketTagging", check: checkTagging, missing: "NoSuchTagSet"},
	{query: "location", name: "BucketLocation", readOnly: true, absent: locationXML},
	{
		query: "acl", name: "BucketAcl", check: func([]byte) error {
			return refuse(http.StatusBadRequest, "AccessControlListNotSupported", "The bucket does not allow ACLs")
		},
		absent: func(b *bucket) string {
			return `<AccessControlPolicy ` + xmlns + `><Owner><ID>` + b.owner + `</ID></Owner><AccessControlList><Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser"><ID>` + b.owner + `</ID></Grantee><Permission>FULL_CONTROL</Permission></Grant></AccessControlList></AccessControlPolicy>`
		},
	},
	{query: "cors", name: "BucketCors", missing: "NoSuchCORSConfiguration"},
	{query: "website", name: "BucketWebsite", missing: "NoSuchWebsiteConfiguration"},
	{query: "replication", name: "BucketReplication", missing: "ReplicationConfigurationNotFoundError"},
	{query: "object-lock", name: "ObjectLockConfiguration", missing: "ObjectLockConfigurationNotFoundError"},
	{query: "logging", name: "BucketLogging", absent: document(`<BucketLoggingStatus ` + xmlns + `></BucketLoggingStatus>`)},
	{query: "notification", name: "BucketNotificationConfiguration", absent: document(`<NotificationConfiguration ` + xmlns + `></NotificationConfiguration>`)},
	{query: "accelerate", name: "BucketAccelerateConfiguration", absent: document(`<AccelerateConfiguration ` + xmlns + `></AccelerateConfiguration>`)},
	{query: "requestPayment", name: "BucketRequestPayment", absent: document(`<RequestPaymentConfiguration ` + xmlns + `><Payer>BucketOwner</Payer></RequestPaymentConfiguration>`)},
}

func ownershipXML(value string) string {
	return `<OwnershipControls ` + xmlns + `><Rule><ObjectOwnership>` + value + `</ObjectOwnership></Rule></OwnershipControls>`
}

func locationXML(b *bucket) string {
	constraint := b.region
	if constraint == globalRegion {
		constraint = ""
	}
	return `<LocationConstraint ` + xmlns + `>` + constraint + `</LocationConstraint>`
}

func (s *Service) serveSetting(w http.ResponseWriter, r *http.Request, t target, b *bucket) error {
	def := t.setting
	switch {
	case r.Method == http.MethodGet:
		return getSetting(w, def, b)
	case def.readOnly:
		return refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed against this resource.")
	case r.Method == http.MethodPut:
		return putSetting(w, r, def, b)
	case r.Method == http.MethodDelete:
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.settings, def.query)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return notImplemented(t.operation)
}

func getSetting(w http.ResponseWriter, def *setting, b *bucket) error {
	b.mu.RLock()
	body, ok := b.settings[def.query]
	b.mu.RUnlock()
	switch {
	case ok:
	case def.missing != "":
		return refuse(http.StatusNotFound, def.missing, "The configuration does not exist")
	default:
		body = []byte(def.absent(b))
	}
	mediaType := def.mediaType
	if mediaType == "" {
		mediaType = "application/xml"
	}
	w.Header().Set("Content-Type", mediaType)
	_, _ = w.Write(body) // the client is gone: there is nobody to tell
	return nil
}

func putSetting(w http.ResponseWriter, r *http.Request, def *setting, b *bucket) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	check := def.check
	if check == nil {
		check = checkXML
	}
	if err := check(body); err != nil {
		return err
	}
	if def.query == "policy" && !strings.Contains(string(body), "arn:aws:s3:::"+b.name) {
		return refuse(http.StatusBadRequest, "MalformedPolicy", "Policy has invalid resource")
	}
	b.mu.Lock()
	b.settings[def.query] = bytes.Clone(body)
	b.mu.Unlock()
	if def.query == "policy" {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
