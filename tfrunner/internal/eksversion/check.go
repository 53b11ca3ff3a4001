// Package eksversion asks EKS which Kubernetes versions it offers, so that a
// version that is not among them fails a run before the plan and not after ten
// minutes of an apply.
package eksversion

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// UnsupportedError is a Kubernetes version that EKS does not offer.
type UnsupportedError struct {
	Version   string
	Region    string
	Supported []string // those in standard and in extended support, newest first
}

// Error names the version and those that can be had.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("EKS in %s does not support Kubernetes %s; it supports %s", e.Region, e.Version, strings.Join(e.Supported, ", "))
}

// Check gives an *UnsupportedError if EKS in the configuration's region offers
// other versions than this one, which is major.minor. Any other error says that
// it cannot be told, which is no reason to stop: the credential may lack
// eks:DescribeClusterVersions.
func Check(ctx context.Context, cfg aws.Config, version string) error {
	pages := eks.NewDescribeClusterVersionsPaginator(eks.NewFromConfig(cfg), &eks.DescribeClusterVersionsInput{})
	var supported []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("ask EKS for the Kubernetes versions that it supports: %w", err)
		}
		for _, v := range page.ClusterVersions {
			if v.VersionStatus == types.VersionStatusStandardSupport || v.VersionStatus == types.VersionStatusExtendedSupport {
				supported = append(supported, aws.ToString(v.ClusterVersion))
			}
		}
	}
	switch {
	case len(supported) == 0:
		return fmt.Errorf("ask EKS for the Kubernetes versions that it supports: the answer in %s has none", cfg.Region)
	case slices.Contains(supported, version):
		return nil
	}
	slices.SortFunc(supported, func(a, b string) int { return minor(b) - minor(a) })
	return &UnsupportedError{Version: version, Region: cfg.Region, Supported: slices.Compact(supported)}
}

// minor is the second number of major.minor; -1 for anything else.
func minor(version string) int {
	n := -1
	if _, err := fmt.Sscanf(version, "1.%d", &n); err != nil {
		return -1
	}
	return n
}
