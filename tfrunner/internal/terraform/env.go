package terraform

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-exec/tfexec"
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

// Env builds Terraform's environment: an allow-list of what getenv has, then
// what the run spec adds, then the credential, which nothing can override.
func Env(getenv func(string) string, spec, credential map[string]string) map[string]string {
	env := map[string]string{}
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

// reserved is what a run spec must not set: it would replace the credential,
// or the programs that run with it.
func reserved(key string) bool {
	switch key {
	case "PATH", "HOME", "CHECKPOINT_DISABLE",
		"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_EC2_METADATA_DISABLED":
		return true
	}
	return strings.HasPrefix(key, "LD_")
}

// CheckEnv says what is wrong with the environment of a run spec.
func CheckEnv(spec map[string]string) error {
	name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	managed := tfexec.ProhibitedEnv(spec)
	for _, key := range slices.Sorted(maps.Keys(spec)) {
		switch {
		case !name.MatchString(key):
			return fmt.Errorf("%q is no name of an environment variable", key)
		case reserved(key) || slices.Contains(managed, key):
			return fmt.Errorf("the environment variable %s cannot be set", key)
		}
	}
	return nil
}
