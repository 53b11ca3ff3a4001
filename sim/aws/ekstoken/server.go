package ekstoken

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/sim/aws/eks"
	"github.com/kubeopera/platform/sim/aws/sts"
	"github.com/kubeopera/platform/sim/pki"
)

// Clusters knows the EKS clusters and who may enter them.
type Clusters interface {
	Clusters() []eks.ClusterRef
	Identity(cluster eks.ClusterRef, principalARN string) (eks.Identity, bool)
}

// Config says how to serve.
type Config struct {
	Verifier Verifier
	Clusters Clusters
	Address  string       // empty: a free port of 127.0.0.1
	Log      *slog.Logger // required
}

// Server is a running webhook.
type Server struct {
	cfg    Config
	url    string
	ca     []byte // PEM
	server *http.Server
	done   chan struct{}
}

// Start serves the webhook over TLS, with a certificate of its own CA.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for token reviews: %w", err)
	}
	host, _, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("address of token reviews: %w", err), listener.Close())
	}
	authority, err := pki.New("EKS token webhook CA")
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	certificate, err := authority.Issue("EKS token webhook", []string{host})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &Server{cfg: cfg, url: "https://" + listener.Addr().String(), ca: authority.PEM(), done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /tokenreview", s.review)
	mux.HandleFunc("POST /tokenreview/{region}/{cluster}", s.review)
	s.server = &http.Server{
		Handler:           mux,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.done)
		if err := s.server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			cfg.Log.ErrorContext(context.WithoutCancel(ctx), "token reviews ended", "error", err)
		}
	}()
	return s, nil
}

// Kubeconfig is the file for kube-apiserver's flag
// --authentication-token-webhook-config-file. Without a cluster the webhook
// accepts tokens of all clusters. The review has version v1, which is for
// --authentication-token-webhook-version.
func (s *Server) Kubeconfig(cluster *eks.ClusterRef) ([]byte, error) {
	server := s.url + "/tokenreview"
	if cluster != nil {
		server += "/" + cluster.Region + "/" + cluster.Name
	}
	// JSON is YAML, and needs no library to be right.
	data, err := json.MarshalIndent(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "webhook",
		"clusters": []any{map[string]any{"name": "eks", "cluster": map[string]any{"server": server, "certificate-authority-data": s.ca}}},
		"users":    []any{map[string]any{"name": "kube-apiserver", "user": map[string]any{}}},
		"contexts": []any{map[string]any{"name": "webhook", "context": map[string]any{"cluster": "eks", "user": "kube-apiserver"}}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode webhook configuration: %w", err)
	}
	return data, nil
}

// Close ends the webhook.
func (s *Server) Close() error {
	err := s.server.Close()
	<-s.done
	if err != nil {
		return fmt.Errorf("close token reviews: %w", err)
	}
	return nil
}

// maxReview bounds a request: a token has at most 4 KiB.
const maxReview = 64 << 10

func (s *Server) review(w http.ResponseWriter, r *http.Request) {
	var in authenticationv1.TokenReview
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		http.Error(w, "no TokenReview", http.StatusBadRequest)
		return
	}
	clusters := s.cfg.Clusters.Clusters()
	if name := r.PathValue("cluster"); name != "" {
		clusters = []eks.ClusterRef{{Region: r.PathValue("region"), Name: name}}
	}
	out := authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenReview"},
	}
	out.Status, err = s.authenticate(in.Spec.Token, clusters)
	if err != nil {
		// Not told to the caller, as at AWS, but in the log: somebody will wonder.
		s.cfg.Log.DebugContext(r.Context(), "token refused", "error", err)
		out.Status.Error = "token refused"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the client is gone: there is nobody to tell
}

func (s *Server) authenticate(token string, clusters []eks.ClusterRef) (authenticationv1.TokenReviewStatus, error) {
	var names []string
	for _, c := range clusters {
		names = append(names, c.Name)
	}
	key, name, err := s.cfg.Verifier.Verify(token, names)
	if err != nil {
		return authenticationv1.TokenReviewStatus{}, err
	}
	for _, c := range clusters {
		if c.Name != name { // two regions may have clusters of one name
			continue
		}
		if id, ok := s.cfg.Clusters.Identity(c, key.PrincipalARN); ok {
			return authenticationv1.TokenReviewStatus{Authenticated: true, User: userInfo(id, key.ID, key.PrincipalARN)}, nil
		}
	}
	return authenticationv1.TokenReviewStatus{}, fmt.Errorf("%w: %s has no access entry in cluster %s", ErrToken, key.PrincipalARN, name)
}

func userInfo(id eks.Identity, accessKeyID, principalARN string) authenticationv1.UserInfo {
	userID := sts.UserID(principalARN)
	return authenticationv1.UserInfo{
		Username: id.Username,
		UID:      "aws-iam-authenticator:" + sts.Account(principalARN) + ":" + userID,
		Groups:   append(id.Groups, policyGroups(id.Policies)...),
		Extra: map[string]authenticationv1.ExtraValue{
			"accessKeyId": {accessKeyID},
			"arn":         {principalARN},
			"principalId": {userID},
		},
	}
}
