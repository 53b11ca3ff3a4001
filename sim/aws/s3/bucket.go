package s3

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/johannesboyne/gofakes3"

	"github.com/kubeopera/platform/sim/aws/keyring"
)

const globalRegion = "us-east-1"

// bucket is what there is to know of a bucket besides its objects.
type bucket struct {
	name   string
	region string
	owner  string // account id

	mu       sync.RWMutex
	settings map[string][]byte // by the setting's query word, as it was put
}

type createBucketConfiguration struct {
	LocationConstraint string
	Tags               []tag `xml:"Tags>Tag"`
}

func (s *Service) createBucket(w http.ResponseWriter, r *http.Request, t target) error {
	if !validBucketName(t.bucket) {
		return refuse(http.StatusBadRequest, "InvalidBucketName", "The specified bucket is not valid.")
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	var cfg createBucketConfiguration
	if len(body) > 0 {
		if err := xml.Unmarshal(body, &cfg); err != nil {
			return malformedXML()
		}
	}
	region := keyring.CallerFrom(r.Context()).Region
	if err := checkLocation(cfg.LocationConstraint, region); err != nil {
		return err
	}
	b := &bucket{name: t.bucket, region: region, owner: s.accountID, settings: map[string][]byte{}}
	if len(cfg.Tags) > 0 {
		tags, err := xml.Marshal(tagging{Tags: cfg.Tags})
		if err != nil {
			return fmt.Errorf("encode tags: %w", err)
		}
		b.settings["tagging"] = tags
	}
	if ownership := r.Header.Get("X-Amz-Object-Ownership"); ownership != "" {
		b.settings["ownershipControls"] = []byte(ownershipXML(ownership))
	}
	if err := s.insert(b); err != nil {
		return err
	}
	w.Header().Set("Location", "/"+t.bucket)
	w.WriteHeader(http.StatusOK)
	return nil
}

var (
	bucketName = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])$`)
	// misplacedDot matches labels that are empty or begin or end with a hyphen.
	misplacedDot     = regexp.MustCompile(`\.\.|\.-|-\.`)
	reservedPrefixes = []string{"xn--", "sthree-", "amzn-s3-demo-"}
	reservedSuffixes = []string{"-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"}
)

// validBucketName applies the rules for general purpose buckets.
func validBucketName(name string) bool {
	return len(name) >= 3 && len(name) <= 63 && bucketName.MatchString(name) && !misplacedDot.MatchString(name) &&
		net.ParseIP(name) == nil &&
		!slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) &&
		!slices.ContainsFunc(reservedSuffixes, func(p string) bool { return strings.HasSuffix(name, p) })
}

// checkLocation applies S3's rules for the constraint in a request that was
// sent to region's endpoint.
func checkLocation(constraint, region string) error {
	if constraint == "EU" {
		constraint = "eu-west-1"
	}
	switch {
	case region == globalRegion && constraint == "":
		return nil
	case constraint == globalRegion:
		// There is no such constraint, not even where the bucket would be there anyway.
		return refuse(http.StatusBadRequest, "InvalidLocationConstraint", "The specified location-constraint is not valid")
	case constraint == region:
		return nil
	case constraint == "":
		constraint = "unspecified"
	}
	return refuse(http.StatusBadRequest, "IllegalLocationConstraintException",
		"The "+constraint+" location constraint is incompatible for the region specific endpoint this request was sent to.")
}

// insert takes the bucket's name, which is unique over all accounts.
func (s *Service) insert(b *bucket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.buckets[b.name]; old != nil {
		switch {
		case old.owner != b.owner:
			return refuse(http.StatusConflict, "BucketAlreadyExists",
				"The requested bucket name is not available. The bucket namespace is shared by all users of the system. Please select a different name and try again.")
		case old.region == globalRegion && b.region == globalRegion:
			return nil // the one region that says yes again, for old times' sake
		}
		return refuse(http.StatusConflict, "BucketAlreadyOwnedByYou",
			"Your previous request to create the named bucket succeeded and you already own it.")
	}
	if b.owner == s.accountID {
		if err := s.objects.CreateBucket(b.name); err != nil {
			return fmt.Errorf("create bucket: %w", err)
		}
	}
	s.buckets[b.name] = b
	return nil
}

func (s *Service) deleteBucket(w http.ResponseWriter, t target) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.objects.DeleteBucket(t.bucket); err != nil {
		if gofakes3.HasErrorCode(err, gofakes3.ErrBucketNotEmpty) {
			return refuse(http.StatusConflict, "BucketNotEmpty", "The bucket you tried to delete is not empty")
		}
		return fmt.Errorf("delete bucket: %w", err)
	}
	delete(s.buckets, t.bucket)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", errors.Join(err, accessDenied()))
	}
	return body, nil
}

func malformedXML() error {
	return refuse(http.StatusBadRequest, "MalformedXML",
		"The XML you provided was not well-formed or did not validate against our published schema")
}
