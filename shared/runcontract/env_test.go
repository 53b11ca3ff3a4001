package runcontract_test

import (
	"testing"

	"github.com/kubeopera/platform/shared/runcontract"
)

func TestReservedEnv(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"AWS_SECRET_ACCESS_KEY": true, "AWS_PROFILE": true, "PATH": true, "LD_PRELOAD": true, "TF_VAR_region": true, "TF_LOG_PROVIDER": true,
		// Each would let git or ssh use another credential, another program, or trust anybody.
		"GIT_ASKPASS": true, "GIT_SSH_COMMAND": true, "GIT_SSH": true, "GIT_CONFIG_COUNT": true, "GIT_SSL_NO_VERIFY": true, "GIT_PROXY_COMMAND": true,
		"SSH_AUTH_SOCK": true, "SSH_ASKPASS": true,
		"AWS_ENDPOINT_URL": false, "AWS_CA_BUNDLE": false, "HTTPS_PROXY": false, "NO_PROXY": false, "SSL_CERT_FILE": false, "GITOPS": false,
	} {
		if got := runcontract.ReservedEnv(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}
