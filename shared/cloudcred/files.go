package cloudcred

import (
	"strconv"
	"strings"

	"github.com/kubeopera/platform/shared/runcontract"
)

// baseProfile is the profile of the access key that assumes a role.
const baseProfile = runcontract.CredentialProfile + "-base"

// Files is an AWS shared config file and a shared credentials file with the
// profile runcontract.CredentialProfile, by the names of a credential Secret's
// keys. For a role that profile assumes it, from a second one with the base key:
// every AWS tool that uses the profile renews its sessions by itself. The
// environment's name goes into the session's.
//
// Bytes that could begin another line or a comment are left out: Validate
// refuses a credential that has them.
func (c Credential) Files(region, environment string) map[string][]byte {
	var key AccessKey
	keyProfile := runcontract.CredentialProfile
	config := "[profile " + runcontract.CredentialProfile + "]\n" + setting("region", region, regionBytes)
	if c.AccessKey != nil {
		key = *c.AccessKey
	}
	if role := c.AssumeRole; role != nil {
		keyProfile = baseProfile
		if role.Base.AccessKey != nil {
			key = *role.Base.AccessKey
		}
		config += setting("role_arn", role.RoleARN, roleBytes) +
			setting("source_profile", baseProfile, roleBytes) +
			setting("role_session_name", role.session(environment), sessionNameBytes) +
			setting("external_id", role.ExternalID.Reveal(), externalIDBytes) +
			setting("duration_seconds", strconv.Itoa(int(role.duration().Seconds())), lettersAndDigits)
	}
	keys := "[" + keyProfile + "]\n" +
		setting("aws_access_key_id", key.ID, keyIDBytes) +
		setting("aws_secret_access_key", key.Secret.Reveal(), secretBytes) +
		setting("aws_session_token", key.SessionToken.Reveal(), secretBytes)
	return map[string][]byte{
		runcontract.CredentialConfigFile: []byte(config),
		runcontract.CredentialKeysFile:   []byte(keys),
	}
}

// setting is a line of an INI file, empty for an empty value.
func setting(name, value, allowed string) string {
	if value = only(value, allowed); value == "" {
		return ""
	}
	return name + " = " + value + "\n"
}

// only is text without what is not allowed in it.
func only(text, allowed string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(allowed, r) {
			return r
		}
		return -1
	}, text)
}
