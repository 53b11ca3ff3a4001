package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Host is where the machine's host answers, on the machine's own network only.
const Host = "169.254.42.1:80"

// Paths of the host, each for a POST of JSON.
const (
	PathSettings    = "/settings"
	PathNewCluster  = "/cluster"
	PathCertificate = "/certificate"
	PathEtcd        = "/etcd"
	PathKubelet     = "/kubelet"
)

// Settings are what a machine knows of itself.
type Settings struct {
	InstanceID   string `json:"instance_id"`
	InstanceType string `json:"instance_type"`
	CPUs         int    `json:"cpus"`
	MemoryMiB    int    `json:"memory_mib"`
	Address      string `json:"address"` // the machine's own, private one
	// MaxWait cuts kubeadm's own waits, which are minutes.
	MaxWait time.Duration `json:"max_wait_ns"`
}

// NewCluster asks for a cluster of its own, with the machine's etcd as its only
// member.
type NewCluster struct {
	Names       []string `json:"names"` // in the API server's certificate
	ServiceCIDR string   `json:"service_cidr"`
	Member      Member   `json:"member"`
}

// Cluster is the cluster that was made: its keys, and the machine's member.
type Cluster struct {
	CACertificate string `json:"ca_certificate"`
	CAKey         string `json:"ca_key"`
	Data          Data   `json:"data"`
}

// Data is what an etcd member keeps on its disk: who loses it is no member any more.
type Data struct {
	ClusterID string `json:"cluster_id"`
	MemberID  string `json:"member_id"`
}

// Certificate asks for further names in the API server's certificate.
type Certificate struct {
	ClusterID string   `json:"cluster_id"`
	Names     []string `json:"names"`
}

// Member is a member of etcd.
type Member struct {
	ID      string `json:"id"`
	Name    string `json:"name"` // empty until it has started
	PeerURL string `json:"peer_url"`
	Started bool   `json:"started"`
	Learner bool   `json:"learner"`
	Healthy bool   `json:"healthy"`
}

// What can be done with etcd.
const (
	EtcdList    = "list"
	EtcdAdd     = "add" // as a learner
	EtcdPromote = "promote"
	EtcdRemove  = "remove"
)

// Etcd is a call to the etcd of a node, by the node's address or name.
type Etcd struct {
	Node   string `json:"node"`
	Do     string `json:"do"`
	Member Member `json:"member"` // for all but list
}

// EtcdAnswer is what etcd answers.
type EtcdAnswer struct {
	ClusterID string   `json:"cluster_id"`
	Member    Member   `json:"member"`
	Members   []Member `json:"members"`
}

// Kubelet tells that a kubelet runs, for as long as the call lasts. The answer
// never comes; a new call replaces the one before.
type Kubelet struct {
	Node       string   `json:"node"`
	StaticPods []string `json:"static_pods"`
	Data       *Data    `json:"data,omitempty"` // of etcd
}

// client has no keep-alive: a command makes one call and ends.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

func get(ctx context.Context, method, url string, header ...string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, nil, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := client().Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, content, err
}

// ask calls the host. An answer that is not 200 is an error with the host's words.
func ask(ctx context.Context, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+Host+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client().Do(request) //nolint:gosec // the host's address is a constant
	if err != nil {
		return fmt.Errorf("ask the machine's host: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("answer of the machine's host: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(string(bytes.TrimSpace(content)))
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(content, answer); err != nil {
		return fmt.Errorf("answer of the machine's host: %w", err)
	}
	return nil
}

// tee copies to a file what is read.
type tee struct {
	from io.Reader
	to   io.Writer
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	_, _ = t.to.Write(p[:n]) // what does not fit is still in the journal
	return n, err
}
