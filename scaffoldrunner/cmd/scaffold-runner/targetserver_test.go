package main

import (
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bitnami-labs/sealed-secrets/pkg/apis/sealedsecrets/v1alpha1"
	"github.com/bitnami-labs/sealed-secrets/pkg/crypto"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/yaml"
)

const targetToken = "canary-target-token-0001"

// sealingKey is what a sealed-secrets controller opens secrets with.
type sealingKey struct {
	private *rsa.PrivateKey
	pem     []byte
}

// newSealingKey has 2048 bits: those that controllers make take seconds.
func newSealingKey(valid time.Duration) sealingKey {
	key, cert, err := crypto.GeneratePrivateKeyAndCert(2048, valid, "")
	if err != nil {
		panic(err) // no randomness
	}
	return sealingKey{key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})}
}

// sharedKeys are two controllers' keys, for all tests.
var sharedKeys = sync.OnceValue(func() [2]sealingKey {
	return [2]sealingKey{newSealingKey(time.Hour), newSealingKey(time.Hour)}
})

type object = map[string]any

// targetServer is the cluster: as much of an API server, of Flux and of a
// sealed-secrets controller as a run sees.
type targetServer struct {
	*httptest.Server
	t *testing.T

	mu sync.Mutex
	// deployed says whether Flux has brought the controller up.
	deployed func() bool
	// namespaces are those that have a controller then.
	namespaces []string
	key        sealingKey
	flux       map[string][]object // by resource; nil: Flux is not there
	secrets    map[string]map[string][]byte
	proxy      func(w http.ResponseWriter) // answers instead of the service proxy
	token      string
	eks        bool // takes tokens of EKS's kind, whoever signed them
	asked      []string
	nudges     int
}

func newTargetServer(t *testing.T) *targetServer {
	t.Helper()
	s := &targetServer{
		t: t, deployed: func() bool { return true }, namespaces: []string{"sealed-secrets"}, key: sharedKeys()[0],
		secrets: map[string]map[string][]byte{}, token: targetToken,
	}
	s.flux = s.fluxOf("clusters/" + environment)
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

// set changes it while it serves.
func (s *targetServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *targetServer) fluxOf(folder string) map[string][]object {
	kustomization := func(name, path string) object {
		return object{
			"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
			"metadata": object{"name": name, "namespace": "flux-system"},
			"spec":     object{"path": "./" + path, "sourceRef": object{"kind": "GitRepository", "name": "flux-system"}},
		}
	}
	return map[string][]object{
		"kustomizations": {kustomization("flux-system", folder), kustomization("infrastructure", folder+"/infrastructure")},
		"gitrepositories": {{
			"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": object{"name": "flux-system", "namespace": "flux-system"},
		}},
		"helmrepositories": {}, "helmreleases": {},
	}
}

// release is the HelmRelease of sealed-secrets, failed.
func release(conditions ...any) object {
	return object{
		"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
		"metadata": object{"name": "sealed-secrets", "namespace": "sealed-secrets", "generation": 1},
		"spec":     object{"chart": object{"spec": object{"chart": "sealed-secrets", "sourceRef": object{"kind": "HelmRepository", "name": "sealed-secrets", "namespace": "flux-system"}}}},
		"status":   object{"observedGeneration": 1, "conditions": conditions},
	}
}

// unseal does what the controller does with what is on a branch.
func (s *targetServer) unseal(g *gitServer) {
	s.t.Helper()
	for path, data := range g.tree(s.t) {
		if !strings.Contains(path, "/sealed-secrets/") || !strings.HasPrefix(path, "clusters/"+environment) {
			continue
		}
		var sealed v1alpha1.SealedSecret
		if err := yaml.UnmarshalStrict(data, &sealed); err != nil {
			s.t.Fatalf("%s: %v", path, err)
		}
		secret, err := sealed.Unseal(serializer.NewCodecFactory(scheme.Scheme), map[string]*rsa.PrivateKey{"": s.key.private})
		if err != nil {
			s.t.Fatalf("%s: %v", path, err)
		}
		s.set(func() { s.secrets[secret.Namespace+"/"+secret.Name] = secret.Data })
	}
}

// passwords are all plaintexts that must be nowhere.
func (s *targetServer) passwords() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, secret := range s.secrets {
		for key, value := range secret {
			if strings.Contains(key, "pass") || strings.Contains(key, "key") || strings.Contains(key, "cookie") {
				found = append(found, string(value))
			}
		}
	}
	return found
}

func (s *targetServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	if got := r.Header.Get("Authorization"); got != "Bearer "+s.token && (!s.eks || !strings.HasPrefix(got, "Bearer k8s-aws-v1.")) {
		s.status(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case strings.HasSuffix(r.URL.Path, "/deployments"):
		s.deployments(w, r)
	case strings.HasSuffix(r.URL.Path, "/proxy/v1/cert.pem"):
		if s.proxy != nil {
			s.proxy(w)
			return
		}
		_, _ = w.Write(s.key.pem)
	case strings.HasSuffix(r.URL.Path, "/services"):
		s.list(w, "v1", "ServiceList", object{
			"metadata": object{"name": "sealed-secrets", "namespace": "sealed-secrets"},
			"spec":     object{"selector": object{"app": "sealed"}, "ports": []object{{"name": "http", "port": 8080, "targetPort": "http"}}},
		}, object{
			"metadata": object{"name": "sealed-secrets-metrics", "namespace": "sealed-secrets"},
			"spec":     object{"selector": object{"app": "sealed"}, "ports": []object{{"name": "metrics", "port": 8081}}},
		})
	case strings.HasSuffix(r.URL.Path, "/pods"):
		s.list(w, "v1", "PodList", object{
			"metadata": object{"name": "sealed-secrets-abc", "namespace": "sealed-secrets"},
			"spec":     object{"containers": []object{{"name": "controller", "ports": []object{{"name": "http", "containerPort": 8080}}}}},
			"status":   object{"phase": "Running"},
		})
	case strings.HasSuffix(r.URL.Path, "/portforward"):
		s.forward(w, r)
	case len(parts) == 6 && parts[4] == "secrets":
		values, ok := s.secrets[parts[3]+"/"+parts[5]]
		if !ok {
			s.status(w, http.StatusNotFound, "NotFound")
			return
		}
		data := object{}
		for key, value := range values {
			data[key] = base64.StdEncoding.EncodeToString(value)
		}
		s.json(w, http.StatusOK, object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": parts[5], "namespace": parts[3]}, "data": data})
	case strings.HasPrefix(r.URL.Path, "/apis/") && strings.Contains(parts[1], "toolkit.fluxcd.io"):
		s.fluxObjects(w, r, parts)
	default:
		s.status(w, http.StatusNotFound, "NotFound")
	}
}

func (s *targetServer) deployments(w http.ResponseWriter, r *http.Request) {
	var items []object
	if s.deployed() && r.URL.Query().Get("labelSelector") == "app.kubernetes.io/name=sealed-secrets" {
		for _, namespace := range s.namespaces {
			items = append(items, object{
				"metadata": object{"name": "sealed-secrets", "namespace": namespace, "generation": 1},
				"spec":     object{"replicas": 1, "selector": object{"matchLabels": object{"app": "sealed"}}, "template": object{"metadata": object{"labels": object{"app": "sealed"}}}},
				"status": object{
					"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
					"conditions": []object{{"type": "Available", "status": "True"}},
				},
			})
		}
	}
	s.list(w, "apps/v1", "DeploymentList", items...)
}

func (s *targetServer) fluxObjects(w http.ResponseWriter, r *http.Request, parts []string) {
	if s.flux == nil {
		s.status(w, http.StatusNotFound, "NotFound")
		return
	}
	if len(parts) == 4 { // list
		s.list(w, parts[1]+"/"+parts[2], "List", s.flux[parts[3]]...)
		return
	}
	for _, o := range s.flux[parts[5]] {
		if o["metadata"].(object)["name"] == parts[6] {
			if r.Method == http.MethodPatch {
				s.nudges++
			}
			s.json(w, http.StatusOK, o)
			return
		}
	}
	s.status(w, http.StatusNotFound, "NotFound")
}

func (s *targetServer) list(w http.ResponseWriter, version, kind string, items ...object) {
	if items == nil {
		items = []object{}
	}
	s.json(w, http.StatusOK, object{"apiVersion": version, "kind": kind, "metadata": object{}, "items": items})
}

func (s *targetServer) status(w http.ResponseWriter, code int, reason string) {
	s.json(w, code, object{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason})
}

func (s *targetServer) json(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // a client that is gone needs no answer
}

// forward is a kubelet's end of `kubectl port-forward`, with the controller behind.
func (s *targetServer) forward(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "SPDY/3.1") {
		s.status(w, http.StatusBadRequest, "BadRequest") // no websockets here
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	certificate := s.key.pem
	streams := make(chan httpstream.Stream, 2)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, replied <-chan struct{}) error {
		go func() { // a stream is used once it has been replied to
			<-replied
			streams <- stream
		}()
		return nil
	})
	if conn == nil {
		return
	}
	go func() {
		defer func() { _ = conn.Close() }()
		for range 2 {
			select {
			case stream := <-streams:
				if stream.Headers().Get("streamType") != "data" || stream.Headers().Get("port") != "8080" {
					continue
				}
				request := make([]byte, 512)
				if n, err := stream.Read(request); err != nil || !strings.HasPrefix(string(request[:n]), "GET /v1/cert.pem ") {
					return
				}
				_, _ = io.WriteString(stream, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(certificate))+"\r\n\r\n"+string(certificate))
				_ = stream.Close()
			case <-conn.CloseChan():
				return
			}
		}
		<-conn.CloseChan()
	}()
}
