package reads

import (
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/sim/controlplane"
)

// observer is the API server as the service sees it. It counts what it is asked.
type observer struct {
	kubeconfig string // path

	mu    sync.Mutex
	asked map[string]int // by question
}

// observe passes everything on to the API server, with all rights.
func observe(tb testing.TB, plane *controlplane.ControlPlane) *observer {
	tb.Helper()
	upstream, err := url.Parse(plane.URL())
	if err != nil {
		tb.Fatal(err)
	}
	transport, err := rest.TransportFor(plane.RESTConfig())
	if err != nil {
		tb.Fatal(err)
	}
	o := &observer{kubeconfig: filepath.Join(tb.TempDir(), "kubeconfig"), asked: map[string]int{}}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport:     transport,
		FlushInterval: -1,                                                      // watches are streams
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // they break off when the service stops
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.asked[question(r)]++
		o.mu.Unlock()
		forward.ServeHTTP(w, r)
	}))
	tb.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["observed"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["observed"] = &clientcmdapi.Context{Cluster: "observed"}
	config.CurrentContext = "observed"
	if err := clientcmd.WriteToFile(*config, o.kubeconfig); err != nil {
		tb.Fatal(err)
	}
	return o
}

// question is what a request asks for, without the name: "GET jobs/x", "GET secrets".
func question(r *http.Request) string {
	_, path, _ := strings.Cut(r.URL.Path, "/namespaces/")
	_, path, _ = strings.Cut(path, "/")
	kind, _, one := strings.Cut(path, "/")
	switch {
	case one:
		kind += "/x"
	case r.URL.Query().Has("watch"):
		kind = "watch of " + kind
	}
	return r.Method + " " + kind
}

// reset begins to count anew.
func (o *observer) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.asked)
}

// count is what was asked since reset.
func (o *observer) count() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.asked)
}
