// Package skip is the only way for a test to be skipped: a part that is
// optional on a developer's machine is missing, with the reason. Under CI=true
// nothing may be missing that is not on the list here.
package skip

import (
	"os"
	"slices"
	"testing"
)

// Part is an optional part of the machine that tests run on.
type Part string

// The optional parts.
const (
	AWSCLI         Part = "aws CLI"
	ControlPlane   Part = "control plane binaries"
	Curl           Part = "curl"
	GitOps         Part = "GitOps controllers"
	Kubeadm        Part = "kubeadm"
	Kubectl        Part = "kubectl"
	Moto           Part = "moto"
	Namespaces     Part = "user and mount namespaces"
	OrdinaryUser   Part = "ordinary user to switch to"
	Postgres       Part = "PostgreSQL"
	ProviderMirror Part = "AWS provider"
	ProviderSchema Part = "AWS provider schema file"
	SSH            Part = "OpenSSH client"
	SSHServer      Part = "OpenSSH server"
	SessionPlugin  Part = "session-manager-plugin"
	Shellcheck     Part = "shellcheck"
	Terraform      Part = "terraform"
)

// allowedInCI may be missing in CI, each for its reason.
var allowedInCI = []Part{
	ProviderSchema, // 200 kB of generated JSON that only who refreshes the checked-in extract needs
	Shellcheck,     // a second opinion; bash -n always runs
}

// Missing skips the test since part is not there; in CI it fails instead,
// unless part may be missing there.
func Missing(tb testing.TB, part Part, reason string) {
	tb.Helper()
	if os.Getenv("CI") == "true" && !slices.Contains(allowedInCI, part) {
		tb.Fatalf("CI must not go without %s: %s", part, reason)
	}
	tb.Skipf("without %s: %s", part, reason)
}

// Long skips a test that makes sense only with time to spend, under -short.
func Long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("long test, under -short")
	}
}

// Soak skips a test that takes many minutes and repeats what shorter ones prove,
// unless `make soak` runs it.
func Soak(tb testing.TB) {
	tb.Helper()
	if !Soaking() {
		tb.Skip("make soak runs it")
	}
}

// Soaking says that `make soak` runs the tests: one that is the longer the more
// it finds takes its time then.
func Soaking() bool { return os.Getenv("KUBEOPERA_SOAK") != "" }
