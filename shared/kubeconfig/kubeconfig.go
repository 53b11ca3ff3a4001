// Package kubeconfig checks the kubeconfigs that the platform publishes and
// takes in: that they hold all that is needed, and nothing that would make a
// reader run a program, open a file or trust an unknown server.
//
// Reading is client-go's own, so that Check judges what clients will see.
package kubeconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/shared/redact"
)

// maxSize is the most that a kubeconfig may have, in bytes; a Kubernetes Secret
// takes no more.
const maxSize = 1 << 20

// Parse reads a kubeconfig. Nothing of it is repeated in an error.
func Parse(data []byte) (*api.Config, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("kubeconfig: more than %d bytes", maxSize)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, errors.New("kubeconfig: it cannot be read as one: no YAML, another kind, or a name twice")
	}
	return config, nil
}

// Redact is a kubeconfig for people to look at: the same without keys, tokens,
// passwords and the values of exec plugins' environments.
func Redact(data []byte) ([]byte, error) {
	config, err := Parse(data)
	if err != nil {
		return nil, err
	}
	hide := func(s *string) {
		if *s != "" {
			*s = redact.Marker
		}
	}
	for _, user := range config.AuthInfos {
		hide(&user.Token)
		hide(&user.Username)
		hide(&user.Password)
		if len(user.ClientKeyData) > 0 {
			user.ClientKeyData = []byte(redact.Marker)
		}
		if user.AuthProvider != nil {
			for name := range user.AuthProvider.Config {
				user.AuthProvider.Config[name] = redact.Marker
			}
		}
		if user.Exec != nil {
			// Arguments of a program that is not ours may be passwords.
			if _, problem := publishedExec(user.Exec); problem != "" {
				for i := range user.Exec.Args {
					hide(&user.Exec.Args[i])
				}
			}
			for i := range user.Exec.Env {
				hide(&user.Exec.Env[i].Value)
			}
		}
		user.Extensions = nil
	}
	for _, cluster := range config.Clusters {
		hide(&cluster.ProxyURL) // may hold a password
		cluster.Extensions = nil
	}
	for _, context := range config.Contexts {
		context.Extensions = nil
	}
	config.Extensions = nil
	out, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return out, nil
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
