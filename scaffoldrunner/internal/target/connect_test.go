package target_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/scaffoldrunner/internal/target"
	"github.com/kubeopera/platform/shared/kubeconfig"
	"github.com/kubeopera/platform/shared/runner/runnertest"
)

// server answers that there is nothing, and remembers who asked.
func server(t *testing.T) (*httptest.Server, *[]string) {
	t.Helper()
	var asked []string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"DeploymentList","apiVersion":"apps/v1","items":[]}`))
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

func eks(s *httptest.Server) *api.Config {
	c := runnertest.Kubeconfig(s, "")
	c.AuthInfos["runner"] = &api.AuthInfo{Exec: &api.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1beta1", Command: "aws", InteractiveMode: api.NeverExecInteractiveMode,
		Args: []string{"--region", "eu-west-1", "eks", "get-token", "--cluster-name", "acme", "--output", "json"},
	}}
	return c
}

func write(t *testing.T, c *api.Config) []byte {
	t.Helper()
	data, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestConnect_signs_tokens_itself_and_keeps_them_while_they_last(t *testing.T) {
	t.Parallel()
	s, asked := server(t)
	minted := 0
	lifetime := time.Hour
	cluster, err := target.Connect(write(t, eks(s)), "test", func(context.Context) (target.Token, error) {
		minted++
		return target.Token{Value: "token-" + string(rune('0'+minted)), Expires: time.Now().Add(lifetime)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // two requests each
		if controller, err := cluster.Controller(t.Context()); err != nil || controller != nil {
			t.Fatalf("controller %v, %v", controller, err)
		}
	}
	if minted != 1 || len(*asked) != 4 || (*asked)[3] != "Bearer token-1" {
		t.Errorf("%d tokens for the requests %v", minted, *asked)
	}
}

func TestConnect_makes_another_token_before_one_ends(t *testing.T) {
	t.Parallel()
	s, asked := server(t)
	minted := 0
	cluster, err := target.Connect(write(t, eks(s)), "test", func(context.Context) (target.Token, error) {
		minted++
		return target.Token{Value: "token", Expires: time.Now().Add(30 * time.Second)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Controller(t.Context()); err != nil || minted != len(*asked) {
		t.Errorf("%d tokens for %d requests, %v", minted, len(*asked), err)
	}
}

func TestConnect_refuses_kubeconfigs_that_it_would_have_to_trust(t *testing.T) {
	t.Parallel()
	s, _ := server(t)
	mint := func(context.Context) (target.Token, error) { return target.Token{}, errors.New("not asked for") }
	insecure := runnertest.Kubeconfig(s, "token")
	insecure.Clusters["fake"].InsecureSkipTLSVerify, insecure.Clusters["fake"].CertificateAuthorityData = true, nil
	program := eks(s)
	program.AuthInfos["runner"].Exec.Command = "/bin/sh"
	for name, tt := range map[string]struct {
		config *api.Config
		mint   func(context.Context) (target.Token, error)
	}{
		"no TLS verification":       {insecure, nil},
		"a program":                 {program, mint},
		"EKS that the spec denies":  {eks(s), nil},
		"a token for a spec of EKS": {runnertest.Kubeconfig(s, "token"), mint},
	} {
		if _, err := target.Connect(write(t, tt.config), "test", tt.mint); !errors.Is(err, kubeconfig.ErrRefused) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
