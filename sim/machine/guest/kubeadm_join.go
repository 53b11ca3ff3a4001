package guest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// joining is a join under way.
type joining struct {
	*kubeadmCall
	endpoint string
	token    string
	ca       []byte
	node     nodeRegistration
	kube     kubernetes.Interface // with the token's rights, at the endpoint
	maxWait  time.Duration        // for anything
}

// join is `kubeadm join`.
func (k *kubeadmCall) join(ctx context.Context) error {
	c := &k.config.join
	controlPlane := c.ControlPlane != nil || k.flag("control-plane", "") != ""
	if controlPlane && c.ControlPlane == nil {
		return errors.New("the light machine needs --config for control planes that join")
	}
	if !tokenPattern.MatchString(c.Discovery.BootstrapToken.Token) {
		return fmt.Errorf("discovery.bootstrapToken.token: Invalid value: %q: the bootstrap token is invalid", c.Discovery.BootstrapToken.Token)
	}
	if len(c.Discovery.BootstrapToken.CACertHashes) == 0 && !c.Discovery.BootstrapToken.Unsafe {
		return errors.New("discovery.bootstrapToken: Invalid value: \"\": using token-based discovery without caCertHashes can be unsafe. Set unsafeSkipCAVerification as true in your kubeadm config file or pass --discovery-token-unsafe-skip-ca-verification flag to continue")
	}
	if controlPlane {
		if err := ownAddressOnly(ctx, &c.ControlPlane.LocalAPIEndpoint); err != nil {
			return err
		}
	}
	if err := k.preflight(ctx, controlPlane, true); err != nil {
		return err
	}
	var settings Settings
	if err := ask(ctx, PathSettings, struct{}{}, &settings); err != nil {
		return err
	}
	j := &joining{kubeadmCall: k, maxWait: settings.MaxWait, endpoint: c.Discovery.BootstrapToken.APIServerEndpoint, token: c.Discovery.BootstrapToken.Token, node: c.NodeRegistration}
	if err := j.discover(ctx); err != nil {
		return fmt.Errorf("error execution phase preflight: couldn't validate the identity of the API Server: %w", err)
	}
	if err := j.fetchConfig(ctx); err != nil {
		return fmt.Errorf("error execution phase preflight: unable to fetch the kubeadm-config ConfigMap: failed to get config map: %w", err)
	}
	if controlPlane {
		return j.joinControlPlane(ctx)
	}
	if err := j.startKubelet(ctx, false); err != nil {
		return err
	}
	k.io.printf("\nThis node has joined the cluster:\n* Certificate signing request was sent to apiserver and a response was received.\n* The Kubelet was informed of the new secure connection details.\n")
	return nil
}

// discover finds the cluster's CA: what the endpoint says of itself, with the
// token's signature and the pinned hash.
func (j *joining) discover(ctx context.Context) error {
	wait := min(span(j.config.join.Timeouts.Discovery, 5*time.Minute), j.maxWait)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	j.io.printf("[discovery] Created cluster-info discovery client, requesting info from %q\n", j.endpoint)
	insecure := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, //nolint:gosec // that is what the hash is for
	}, Timeout: 10 * time.Second}
	var content string
	if err := until(ctx, func() error {
		var err error
		content, err = j.clusterInfo(ctx, insecure)
		return err
	}); err != nil {
		return err
	}
	var info struct {
		Clusters []struct {
			Cluster struct {
				CA []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
	}
	if err := yaml.Unmarshal([]byte(content), &info); err != nil || len(info.Clusters) != 1 {
		return fmt.Errorf("couldn't parse the kubeconfig file in the cluster-info ConfigMap: %w", err)
	}
	j.ca = info.Clusters[0].Cluster.CA
	certificate, err := parseCertificate(j.ca)
	if err != nil {
		return err
	}
	pinned := j.config.join.Discovery.BootstrapToken.CACertHashes
	if len(pinned) > 0 && !slices.Contains(pinned, caHash(certificate)) {
		return fmt.Errorf("cluster CA found in cluster-info ConfigMap is invalid: none of the public keys %q are pinned", caHash(certificate))
	}
	j.kube, err = kubernetes.NewForConfig(&rest.Config{
		Host: "https://" + j.endpoint, BearerToken: j.token, TLSClientConfig: rest.TLSClientConfig{CAData: j.ca}, Timeout: 10 * time.Second,
	})
	return err
}

func (j *joining) clusterInfo(ctx context.Context, insecure *http.Client) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+j.endpoint+"/api/v1/namespaces/kube-public/configmaps/cluster-info", nil)
	if err != nil {
		return "", err
	}
	response, err := insecure.Do(request)
	if err != nil {
		return "", fmt.Errorf("failed to request the cluster-info ConfigMap: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("failed to request the cluster-info ConfigMap: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("failed to request the cluster-info ConfigMap: %s", response.Status)
	}
	var info corev1.ConfigMap
	if err := json.Unmarshal(body, &info); err != nil {
		return "", err
	}
	id := j.token[:6]
	if _, ok := info.Data["jws-kubeconfig-"+id]; !ok {
		return "", fmt.Errorf("could not find a JWS signature in the cluster-info ConfigMap for token ID %q", id)
	}
	return info.Data["kubeconfig"], nil
}

// fetchConfig reads the cluster's configuration with the token: here the API
// server itself judges it.
func (j *joining) fetchConfig(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, j.maxWait)
	defer cancel()
	var stored *corev1.ConfigMap
	if err := until(ctx, func() error {
		var err error
		stored, err = j.kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kubeadm-config", metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	kubelet, err := j.kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kubelet-config", metav1.GetOptions{})
	if err != nil {
		return err
	}
	j.config.kubelet = kubelet.Data["kubelet"]
	return j.config.read(stored.Data["ClusterConfiguration"])
}

// startKubelet lets the kubelet join, and waits for its identity.
func (j *joining) startKubelet(ctx context.Context, controlPlane bool) error {
	node, err := j.kube.CoreV1().Nodes().Get(ctx, j.node.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("error execution phase kubelet-start: cannot get Node %q: %w", j.node.Name, err)
	case isReady(node):
		return fmt.Errorf("error execution phase kubelet-start: a Node with name %q and status \"Ready\" already exists in the cluster. You must delete the existing Node or change the name of this new joining Node", j.node.Name)
	}
	server := "https://" + j.endpoint
	if controlPlane { // its kubelet speaks to its own API server once that is there
		server = "https://" + net.JoinHostPort(j.config.join.ControlPlane.LocalAPIEndpoint.AdvertiseAddress, "6443")
	}
	bootstrap, err := kubeconfig(server, j.config.cluster.ClusterName, "tls-bootstrap-token-user", j.ca, &clientcmdapi.AuthInfo{Token: j.token})
	if err != nil {
		return err
	}
	if err := errors.Join(
		writeFile(kubernetesDir+"/bootstrap-kubelet.conf", string(bootstrap), 0o600),
		writeFile(pkiDir+"/ca.crt", string(j.ca), 0o644),
		j.writeKubelet(j.node, controlPlane),
	); err != nil {
		return err
	}
	j.io.printf("[kubelet-start] Starting the kubelet\n")
	if err := startKubelet(ctx); err != nil {
		return fmt.Errorf("error execution phase kubelet-start: %w", err)
	}
	if controlPlane {
		return nil
	}
	return j.waitBootstrap(ctx)
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func (j *joining) waitBootstrap(ctx context.Context) error {
	j.io.printf("[kubelet-start] Waiting for the kubelet to perform the TLS Bootstrap\n")
	waiting, cancel := context.WithTimeout(ctx, min(span(j.config.join.Timeouts.TLSBootstrap, 5*time.Minute), 2*j.maxWait))
	defer cancel()
	if err := until(waiting, func() error {
		if _, err := os.Stat(kubernetesDir + "/kubelet.conf"); err != nil {
			return err
		}
		kube, err := clientFor(kubernetesDir + "/kubelet.conf")
		if err != nil {
			return err
		}
		_, err = kube.CoreV1().Nodes().Get(waiting, j.node.Name, metav1.GetOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("error execution phase kubelet-start: timed out waiting for the condition: %w", err)
	}
	return os.Remove(kubernetesDir + "/bootstrap-kubelet.conf")
}

// joinControlPlane brings a further API server and member of etcd.
func (j *joining) joinControlPlane(ctx context.Context) error {
	c := j.config.join.ControlPlane
	address := c.LocalAPIEndpoint.AdvertiseAddress
	downloading, cancel := context.WithTimeout(ctx, time.Minute)
	err := downloadCerts(downloading, j.kube, c.CertificateKey)
	cancel()
	if err != nil {
		return fmt.Errorf("error execution phase control-plane-prepare/download-certs: error downloading certs: %w", err)
	}
	authority, err := loadAuthority()
	if err != nil {
		return err
	}
	names, err := j.config.names(j.node.Name, address)
	if err != nil {
		return err
	}
	local := "https://" + net.JoinHostPort(address, "6443")
	if err := errors.Join(writeLeaves(authority, names), j.writeKubeconfigs(authority, j.node.Name, local, false)); err != nil {
		return err
	}
	admin, err := localClient(adminConf, "")
	if err != nil {
		return err
	}
	peer, err := j.checkEtcd(ctx, admin)
	if err != nil {
		return fmt.Errorf("error execution phase check-etcd: %w", err)
	}
	if err := errors.Join(
		writeManifest("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
		j.startKubelet(ctx, true),
	); err != nil {
		return err
	}
	if err := j.joinEtcd(ctx, peer, address, names); err != nil {
		return fmt.Errorf("error execution phase etcd-join: error creating local etcd static pod manifest file: %w", err)
	}
	if err := j.waitBootstrap(ctx); err != nil {
		return err
	}
	marking, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	j.io.printf("[mark-control-plane] Marking the node %s as control-plane\n", j.node.Name)
	if err := markControlPlane(marking, admin, j.node.Name); err != nil {
		return fmt.Errorf("error execution phase control-plane-join/mark-control-plane: %w", err)
	}
	own, err := localClient(adminConf, local)
	if err != nil {
		return err
	}
	if err := until(marking, func() error { return ready(marking, own) }); err != nil {
		return fmt.Errorf("error execution phase wait-control-plane: %w", err)
	}
	j.io.printf("\nThis node has joined the cluster and a new control plane instance was created:\n\n* Certificate signing request was sent to apiserver and approval was received.\n* A new etcd member was added to the local/stacked etcd cluster.\n")
	return nil
}

// checkEtcd finds a node whose etcd answers, and fails if any member does not.
func (j *joining) checkEtcd(ctx context.Context, admin kubernetes.Interface) (peer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	j.io.printf("[check-etcd] Checking that the etcd cluster is healthy\n")
	pods, err := admin.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "component=etcd,tier=control-plane"})
	if err != nil {
		return "", fmt.Errorf("could not retrieve the list of etcd endpoints: %w", err)
	}
	var problems []error
	for _, pod := range pods.Items {
		var answer EtcdAnswer
		if err := ask(ctx, PathEtcd, Etcd{Node: pod.Spec.NodeName, Do: EtcdList}, &answer); err != nil {
			problems = append(problems, err)
			continue
		}
		for _, m := range answer.Members {
			if m.Started && !m.Healthy {
				client := strings.Replace(m.PeerURL, ":2380", ":2379", 1)
				return "", fmt.Errorf("etcd cluster is not healthy: failed to dial endpoint %s with maintenance client: context deadline exceeded", client)
			}
		}
		return pod.Spec.NodeName, nil
	}
	return "", errors.Join(append(problems, errors.New("etcd cluster is not healthy: no endpoint answers"))...)
}

// joinEtcd adds the member as a learner, starts it, and has it promoted.
func (j *joining) joinEtcd(ctx context.Context, peer, address string, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, min(span(j.config.join.Timeouts.EtcdAPICall, 2*time.Minute), 2*j.maxWait))
	defer cancel()
	member := Member{Name: j.node.Name, PeerURL: peerURL(address)}
	var answer EtcdAnswer
	if err := until(ctx, func() error { return ask(ctx, PathEtcd, Etcd{Node: peer, Do: EtcdAdd, Member: member}, &answer) }); err != nil {
		return err
	}
	j.io.printf("[etcd] Announced new etcd member joining to the existing etcd cluster\n")
	data := Data{ClusterID: answer.ClusterID, MemberID: answer.Member.ID}
	if err := errors.Join(writeData(data), writeManifest("etcd")); err != nil {
		return err
	}
	j.io.printf("[etcd] Creating static Pod manifest for \"etcd\"\n")
	if err := until(ctx, func() error {
		return ask(ctx, PathEtcd, Etcd{Node: peer, Do: EtcdPromote, Member: Member{ID: data.MemberID}}, nil)
	}); err != nil {
		return fmt.Errorf("error promoting learner: %w", err)
	}
	return ask(ctx, PathCertificate, Certificate{ClusterID: data.ClusterID, Names: names}, nil)
}
