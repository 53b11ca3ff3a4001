package target

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/shared/kubeconfig"
)

// callTimeout bounds one call to the API server, which may be far away but answers
// of itself.
const callTimeout = 20 * time.Second

// Token is a bearer token.
type Token struct {
	Value   string
	Expires time.Time
}

// Cluster is a cluster that is reached with a kubeconfig.
type Cluster struct {
	rest    *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

// Connect reads a kubeconfig. The cluster is not asked yet. mint signs tokens; it is
// wanted for a kubeconfig whose user is an exec plugin, and only then.
func Connect(data []byte, userAgent string, mint func(context.Context) (Token, error)) (*Cluster, error) {
	info, err := kubeconfig.Check(data)
	if err != nil {
		return nil, err
	}
	config, err := kubeconfig.Parse(data)
	if err != nil {
		return nil, err
	}
	if (info.Exec != nil) != (mint != nil) {
		return nil, fmt.Errorf("%w: it and the run spec disagree about who makes its tokens", kubeconfig.ErrRefused)
	}
	if info.Exec != nil {
		config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo] = &api.AuthInfo{}
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%w: it has no usable context", kubeconfig.ErrRefused)
	}
	cfg.UserAgent = userAgent
	cfg.QPS, cfg.Burst = 20, 50
	if mint != nil {
		tokens := &tokens{mint: mint}
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return bearer{tokens, next} })
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the target: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the target: %w", err)
	}
	return &Cluster{rest: cfg, client: client, dynamic: dyn}, nil
}

// tokens keeps a token for as long as it is valid.
type tokens struct {
	mint func(context.Context) (Token, error)

	mu      sync.Mutex
	current Token
}

// renewal is how long before its end a token is no longer used.
const renewal = time.Minute

func (t *tokens) token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Now().Add(renewal).After(t.current.Expires) {
		token, err := t.mint(ctx)
		if err != nil {
			return "", err
		}
		t.current = token
	}
	return t.current.Value, nil
}

// bearer puts a token on requests.
type bearer struct {
	tokens *tokens
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := b.tokens.token(r.Context())
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(r)
}
