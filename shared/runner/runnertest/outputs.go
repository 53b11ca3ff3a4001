// Package runnertest is what tests of runners' commands share: the API server that
// a runner publishes to, and the output of a process that still runs.
package runnertest

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/shared/runcontract"
)

// Outputs is an API server with nothing but one Secret, which can only be created
// and replaced.
type Outputs struct {
	server *httptest.Server

	mu       sync.Mutex
	secret   *corev1.Secret
	requests []string
	progress []runcontract.Progress
	refuse   bool
}

// NewOutputs starts one; it stops with the test.
func NewOutputs(tb testing.TB) *Outputs {
	tb.Helper()
	o := &Outputs{}
	o.server = httptest.NewTLSServer(o)
	tb.Cleanup(o.server.Close)
	return o
}

// Kubeconfig writes a kubeconfig for it to a file, and returns its path.
func (o *Outputs) Kubeconfig(tb testing.TB, path string) string {
	tb.Helper()
	if err := clientcmd.WriteToFile(*Kubeconfig(o.server, "token"), path); err != nil {
		tb.Fatal(err)
	}
	return path
}

// Kubeconfig is a kubeconfig for a server.
func Kubeconfig(server *httptest.Server, token string) *clientcmdapi.Config {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["fake"] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: CA(server)}
	cfg.AuthInfos["runner"] = &clientcmdapi.AuthInfo{Token: token}
	cfg.Contexts["fake"] = &clientcmdapi.Context{Cluster: "fake", AuthInfo: "runner"}
	cfg.CurrentContext = "fake"
	return cfg
}

// CA is the certificate of a server, as PEM.
func CA(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// ServeHTTP takes a Secret.
func (o *Outputs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests = append(o.requests, r.Method+" "+r.URL.Path)
	if o.refuse {
		Answer(w, http.StatusForbidden, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: "secrets is forbidden"})
		return
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	secret, ok := object.(*corev1.Secret)
	if err != nil || !ok {
		Answer(w, http.StatusBadRequest, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonBadRequest, Code: http.StatusBadRequest})
		return
	}
	if r.Method == http.MethodPost && o.secret != nil {
		Answer(w, http.StatusConflict, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonAlreadyExists, Code: http.StatusConflict})
		return
	}
	o.secret = secret
	var p runcontract.Progress
	if json.Unmarshal(secret.Data[runcontract.KeyProgress], &p) == nil {
		o.progress = append(o.progress, p)
	}
	Answer(w, http.StatusOK, secret)
}

// Answer answers a request with an object, as an API server does.
func Answer(w http.ResponseWriter, status int, object runtime.Object) {
	if kinds, _, err := scheme.Scheme.ObjectKinds(object); err == nil {
		object.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that is gone needs no answer.
	_ = json.NewEncoder(w).Encode(object)
}

// Reset is for another run, which has a Secret of its own.
func (o *Outputs) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.secret, o.requests, o.progress = nil, nil, nil
}

// Refuse answers from now on that the runner may not do that.
func (o *Outputs) Refuse() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refuse = true
}

// Secret is the Secret as it is; nil if there is none.
func (o *Outputs) Secret() *corev1.Secret {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.secret.DeepCopy()
}

// Data is one key of the Secret; nil if it is not there.
func (o *Outputs) Data(key string) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.secret == nil {
		return nil
	}
	return o.secret.Data[key]
}

// Requests are the requests so far: method and path.
func (o *Outputs) Requests() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.requests)
}

// Progress is all progress that was published, oldest first.
func (o *Outputs) Progress() []runcontract.Progress {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.progress)
}

// Buffer is the output of a process, to be read while it runs.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String is what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
