package runcontract

import (
	"slices"
	"strings"
)

// ReservedEnv says whether the Env of a spec must not hold a variable: it would
// replace the credential or the programs that run with it, as those of git and ssh
// do, or is one that a runner sets for its programs itself. Services refuse it in
// their configuration, runners in the spec.
func ReservedEnv(name string) bool {
	exact := []string{
		"PATH", "HOME", "CHECKPOINT_DISABLE",
		"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_EC2_METADATA_DISABLED",
		"TF_INPUT", "TF_IN_AUTOMATION", "TF_REATTACH_PROVIDERS", "TF_APPEND_USER_AGENT", "TF_WORKSPACE",
		"TF_DISABLE_PLUGIN_TLS", "TF_SKIP_PROVIDER_VERIFY",
	}
	prefixes := []string{"LD_", "GIT_", "SSH_", "TF_VAR_", "TF_CLI_ARGS", "TF_LOG"}
	return slices.Contains(exact, name) ||
		slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
