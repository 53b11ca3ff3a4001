package eks

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// release is a Kubernetes version that EKS offers.
type release struct {
	version  string
	patch    string
	released string // yyyy-mm-dd
	standard string // end of standard support
	extended string // end of extended support
}

// releases are the offered versions, newest first, as of November 2026. Dates
// follow EKS's rule: 14 months of standard support, 12 more of extended.
var releases = []release{
	{version: "1.36", patch: "1.36.1", released: "2026-06-02", standard: "2027-08-02", extended: "2028-08-02"},
	{version: "1.35", patch: "1.35.4", released: "2026-01-27", standard: "2027-03-27", extended: "2028-03-27"},
	{version: "1.34", patch: "1.34.4", released: "2025-10-02", standard: "2026-12-02", extended: "2027-12-02"},
	{version: "1.33", patch: "1.33.8", released: "2025-05-29", standard: "2026-07-29", extended: "2027-07-29"},
	{version: "1.32", patch: "1.32.12", released: "2025-01-23", standard: "2026-03-23", extended: "2027-03-23"},
	{version: "1.31", patch: "1.31.14", released: "2024-09-26", standard: "2025-11-26", extended: "2026-11-26"},
}

// defaultVersion is what a cluster gets that asks for none.
const defaultVersion = "1.35"

// platformVersion is the same for all clusters: nothing depends on it.
const platformVersion = "eks.4"

func findRelease(version string) (release, bool) {
	i := slices.IndexFunc(releases, func(r release) bool { return r.version == version })
	if i < 0 {
		return release{}, false
	}
	return releases[i], true
}

// minor gives the second number of "1.35".
func minor(version string) int {
	n := -1
	if _, err := fmt.Sscanf(version, "1.%d", &n); err != nil {
		return -1
	}
	return n
}

type clusterVersion struct {
	ClusterVersion           string    `json:"clusterVersion"`
	ClusterType              string    `json:"clusterType"`
	DefaultPlatformVersion   string    `json:"defaultPlatformVersion"`
	DefaultVersion           bool      `json:"defaultVersion"`
	ReleaseDate              timestamp `json:"releaseDate"`
	EndOfStandardSupportDate timestamp `json:"endOfStandardSupportDate"`
	EndOfExtendedSupportDate timestamp `json:"endOfExtendedSupportDate"`
	Status                   string    `json:"status"`
	VersionStatus            string    `json:"versionStatus"`
	KubernetesPatchVersion   string    `json:"kubernetesPatchVersion"`
}

func (s *Service) describeClusterVersions(c call, _ none) (any, error) {
	query := c.URL.Query()
	var asked []string
	for _, v := range query["clusterVersions"] {
		asked = append(asked, strings.Split(v, ",")...)
	}
	now := s.cfg.Now()
	out := []clusterVersion{}
	for _, r := range releases {
		v := clusterVersion{
			ClusterVersion: r.version, ClusterType: "eks", DefaultPlatformVersion: platformVersion,
			DefaultVersion: r.version == defaultVersion, KubernetesPatchVersion: r.patch,
			ReleaseDate: date(r.released), EndOfStandardSupportDate: date(r.standard), EndOfExtendedSupportDate: date(r.extended),
			Status: "STANDARD_SUPPORT",
		}
		if now.After(time.Time(v.EndOfStandardSupportDate)) {
			v.Status = "EXTENDED_SUPPORT"
		}
		if now.After(time.Time(v.EndOfExtendedSupportDate)) {
			v.Status = "UNSUPPORTED"
		}
		v.VersionStatus = v.Status
		switch {
		case len(asked) > 0 && !slices.Contains(asked, r.version),
			query.Get("defaultOnly") == "true" && !v.DefaultVersion,
			query.Get("includeAll") != "true" && len(asked) == 0 && v.Status == "UNSUPPORTED",
			query.Get("versionStatus") != "" && query.Get("versionStatus") != v.Status,
			query.Get("status") != "" && !strings.EqualFold(query.Get("status"), v.Status):
			continue
		}
		out = append(out, v)
	}
	return map[string]any{"clusterVersions": out}, nil
}

// date reads a date of the table above, which a test checks.
func date(s string) timestamp {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return timestamp{}
	}
	return timestamp(t)
}
