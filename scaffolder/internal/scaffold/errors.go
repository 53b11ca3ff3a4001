package scaffold

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kubeopera/platform/shared/api"
)

// What callers branch on.
var (
	// ErrNoCluster is a provision_id whose cluster cannot be scaffolded; see ClusterError.
	ErrNoCluster = errors.New("the provisioning run has no cluster to scaffold")
	// ErrSecretsRequired is a retry without what its run held in clear; see
	// SecretsRequiredError.
	ErrSecretsRequired = errors.New("the run's secrets have to be sent again")
	// ErrProvisionerForbidden: cluster-provisioner refuses this service's key.
	ErrProvisionerForbidden = errors.New("cluster-provisioner refuses access")
	// ErrProvisionerUnavailable: cluster-provisioner does not answer as it should.
	ErrProvisionerUnavailable = errors.New("cluster-provisioner is unavailable")
	// ErrProvisionNotFound: cluster-provisioner has no run of that id.
	ErrProvisionNotFound = errors.New("no such provisioning run")
	// ErrNoDiff is a run that has no diff, or none yet; see NoDiffError.
	ErrNoDiff = errors.New("the run has no diff")
	// ErrDiffMissing is a dry run that succeeded and whose diff is gone from the cluster.
	ErrDiffMissing = errors.New("the run's diff is gone")
)

// ClusterError says why a provisioning run's cluster cannot be scaffolded. It
// matches ErrNoCluster.
type ClusterError struct {
	Provision string
	Status    api.Status
	Reason    string // a sentence
}

func (e *ClusterError) Error() string {
	return fmt.Sprintf("%v: run %s, %s: %s", ErrNoCluster, e.Provision, e.Status, e.Reason)
}

func (e *ClusterError) Is(target error) bool { return target == ErrNoCluster }

// SecretsRequiredError names what a retry has to bring. It matches
// ErrSecretsRequired.
type SecretsRequiredError struct {
	Fields []string // of api.ScaffoldSecrets
}

func (e *SecretsRequiredError) Error() string {
	return fmt.Sprintf("%v: %s", ErrSecretsRequired, strings.Join(e.Fields, ", "))
}

func (e *SecretsRequiredError) Is(target error) bool { return target == ErrSecretsRequired }

// NoDiffError says what a run is that has no diff. It matches ErrNoDiff.
type NoDiffError struct {
	Operation api.Operation
	Status    api.Status
}

func (e *NoDiffError) Error() string {
	return fmt.Sprintf("%v: operation %s, status %s", ErrNoDiff, e.Operation, e.Status)
}

func (e *NoDiffError) Is(target error) bool { return target == ErrNoDiff }
