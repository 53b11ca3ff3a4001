package terraform

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/kubeopera/platform/shared/runcontract"
)

// inherited are the variables that Terraform gets from this process.
func inherited() []string {
	return []string{
		"PATH", "HOME", "TMPDIR", "USER",
		"SSL_CERT_FILE", "SSL_CERT_DIR",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
		"TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR",
	}
}

// goMemoryPercent of the container's memory limit is where Terraform and each of
// its providers begin to collect garbage harder instead of growing. The provider
// is by far the largest, and the others fit into the rest.
const goMemoryPercent = 60

// Env builds Terraform's environment: an allow-list of what getenv has, then
// what the run spec adds, then the credential, which nothing can override.
// memory is the container's memory limit in bytes; 0: none.
func Env(getenv func(string) string, spec, credential map[string]string, memory int64) map[string]string {
	env := map[string]string{}
	if memory > 0 {
		env["GOMEMLIMIT"] = strconv.FormatInt(memory/100*goMemoryPercent, 10)
	}
	for _, key := range inherited() {
		if value := getenv(key); value != "" {
			env[key] = value
		}
	}
	maps.Copy(env, spec)
	maps.Copy(env, credential)
	// Terraform would otherwise ask for newer versions over the network.
	env["CHECKPOINT_DISABLE"] = "1"
	return env
}

// CheckEnv says what is wrong with the environment of a run spec.
func CheckEnv(spec map[string]string) error {
	name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	managed := tfexec.ProhibitedEnv(spec)
	for _, key := range slices.Sorted(maps.Keys(spec)) {
		switch {
		case !name.MatchString(key):
			return fmt.Errorf("%q is no name of an environment variable", key)
		case runcontract.ReservedEnv(key) || slices.Contains(managed, key):
			return fmt.Errorf("the environment variable %s cannot be set", key)
		}
	}
	return nil
}
