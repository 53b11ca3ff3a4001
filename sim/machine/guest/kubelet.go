package guest

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	kubeletUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=2

[Install]
WantedBy=multi-user.target
`
	kubeletDropIn = `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`
	containerdUnit = `[Unit]
Description=containerd container runtime
After=network.target

[Service]
ExecStart=/usr/bin/containerd
# The real one is Type=notify: it has started once it answers.
ExecStartPost=/bin/sh -c 'until [ -e /run/containerd/containerd.sock ]; do sleep 0.02; done'
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
`
	containerdConfig = "/etc/containerd/config.toml"
	containerdSocket = "/run/containerd/containerd.sock"
	criFile          = "/run/machine-cri" // exists while a runtime answers kubelets
	etcdData         = "/var/lib/etcd/member/kubeopera.json"
)

// containerd runs no containers. It is there, with CRI unless its configuration
// switches that off, as the package's does.
func containerd(ctx context.Context, args []string, io stdio) int {
	if slices.Equal(args, []string{"config", "default"}) {
		io.printf("version = 3\n\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n  SystemdCgroup = false\n")
		return 0
	}
	if len(args) > 0 && (args[0] == "--version" || args[0] == "-v") {
		io.printf("containerd containerd.io v%s 0000000000000000000000000000000000000000\n", cmp.Or(packageVersion("containerd.io"), packageVersion("containerd")))
		return 0
	}
	if len(args) > 0 {
		io.errorf("containerd: the light machine does not have %s\n", strings.Join(args, " "))
		return 1
	}
	config, err := os.ReadFile(containerdConfig)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		io.errorf("containerd: %v\n", err)
		return 1
	}
	if !disablesCRI(string(config)) {
		if err := writeFile(criFile, "", 0o600); err != nil {
			io.errorf("containerd: %v\n", err)
			return 1
		}
	}
	return listenAs(ctx, containerdSocket, io)
}

// listenAs is a daemon that has nothing to do: its socket, which nobody can connect
// to, is there while it runs.
func listenAs(ctx context.Context, socket string, io stdio) int {
	if err := writeFile(socket, "", 0o660); err != nil { // last: it says that all is there
		io.errorf("%v\n", err)
		return 1
	}
	<-ctx.Done()
	_ = errors.Join(os.Remove(socket), os.Remove(criFile)) // the machine goes down, or it is started again
	return 0
}

func disablesCRI(config string) bool {
	for line := range strings.Lines(config) {
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "disabled_plugins" && strings.Contains(value, "cri") {
			return true
		}
	}
	return false
}

func crictl(_ context.Context, args []string, io stdio) int {
	if _, err := os.Stat(criFile); err != nil {
		io.errorf("crictl: validate service connection: CRI v1 runtime API is not implemented for endpoint\n")
		return 1
	}
	_ = args // there are no containers to list or stop
	return 0
}

// kubeletArgs are the flags that the stand-in looks at.
type kubeletArgs struct {
	node, kubeconfig, bootstrap, config, nodeIP, providerID string
	external                                                bool
	taints                                                  []corev1.Taint
}

func parseKubelet(args []string) kubeletArgs {
	a := kubeletArgs{kubeconfig: kubernetesDir + "/kubelet.conf"}
	a.node, _ = os.Hostname()
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch name {
		case "kubeconfig":
			a.kubeconfig = value
		case "bootstrap-kubeconfig":
			a.bootstrap = value
		case "config":
			a.config = value
		case "hostname-override":
			a.node = value
		case "node-ip":
			a.nodeIP = value
		case "provider-id":
			a.providerID = value
		case "cloud-provider":
			a.external = value == "external"
		case "register-with-taints":
			for text := range strings.SplitSeq(value, ",") {
				key, effect, _ := strings.Cut(text, ":")
				key, val, _ := strings.Cut(key, "=")
				if key != "" {
					a.taints = append(a.taints, corev1.Taint{Key: key, Value: val, Effect: corev1.TaintEffect(effect)})
				}
			}
		}
	}
	return a
}

// kubelet gets its identity by TLS bootstrapping, registers its node, and tells
// the host for as long as it runs that the node is alive and which static pods it
// has. It runs nothing.
func kubelet(ctx context.Context, args []string, io stdio) int {
	if len(args) > 0 && args[0] == "--version" {
		io.printf("Kubernetes v%s\n", packageVersion("kubelet"))
		return 0
	}
	a := parseKubelet(args)
	if _, err := os.Stat(a.config); err != nil {
		io.errorf("\"command failed\" err=\"failed to load kubelet config file, path: %s, error: %v\"\n", a.config, err)
		return 1
	}
	if _, err := os.Stat(criFile); err != nil {
		io.errorf("\"command failed\" err=\"failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint \\\"unix://%s\\\"\"\n", containerdSocket)
		return 1
	}
	if _, err := os.Stat(a.kubeconfig); err != nil {
		if _, err := os.Stat(a.bootstrap); err != nil {
			io.errorf("\"command failed\" err=\"failed to run Kubelet: unable to load bootstrap kubeconfig: stat %s: no such file or directory\"\n", a.bootstrap)
			return 1
		}
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		a.tellHost(ctx, io)
	}()
	for ctx.Err() == nil {
		if err := a.join(ctx); err == nil {
			break
		} else if ctx.Err() == nil {
			io.errorf("\"Unable to register node\" err=%q node=%q\n", err.Error(), a.node)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	<-ctx.Done()
	<-told
	return 0
}

// tellHost keeps a call to the host open, and makes a new one when what it says
// is no longer so.
func (a kubeletArgs) tellHost(ctx context.Context, io stdio) {
	for ctx.Err() == nil {
		now := a.state()
		call, cancel := context.WithCancel(ctx)
		go func() {
			for {
				select {
				case <-call.Done():
					return
				case <-time.After(200 * time.Millisecond):
					if !reflect.DeepEqual(a.state(), now) {
						cancel()
						return
					}
				}
			}
		}()
		err := ask(call, PathKubelet, now, nil)
		if call.Err() == nil {
			io.errorf("host: %v\n", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		cancel()
	}
}

func (a kubeletArgs) state() Kubelet {
	k := Kubelet{Node: a.node}
	manifests, err := filepath.Glob(kubernetesDir + "/manifests/*.yaml")
	if err != nil {
		return k // the pattern is right
	}
	for _, path := range manifests {
		k.StaticPods = append(k.StaticPods, strings.TrimSuffix(filepath.Base(path), ".yaml"))
	}
	var data Data
	if content, err := os.ReadFile(etcdData); err == nil && json.Unmarshal(content, &data) == nil {
		k.Data = &data
	}
	return k
}

// join gets the kubelet's certificate, if it has none, and registers the node.
func (a kubeletArgs) join(ctx context.Context) error {
	if _, err := os.Stat(a.kubeconfig); err != nil {
		if err := a.bootstrapTLS(ctx); err != nil {
			return fmt.Errorf("bootstrap: %w", err)
		}
	}
	kube, err := clientFor(a.kubeconfig)
	if err != nil {
		return err
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: a.node, Labels: map[string]string{
			corev1.LabelHostname: a.node, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Spec: corev1.NodeSpec{ProviderID: a.providerID, Taints: a.taints},
	}
	if a.external {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: uninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	_, err = kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	registered, err := kube.CoreV1().Nodes().Get(ctx, a.node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	version := "v" + packageVersion("kubelet")
	registered.Status.NodeInfo.KubeletVersion = version
	registered.Status.NodeInfo.OSImage, registered.Status.NodeInfo.OperatingSystem = osRelease("PRETTY_NAME"), "linux"
	registered.Status.NodeInfo.ContainerRuntimeVersion, registered.Status.NodeInfo.Architecture = runtimeVersion(), "amd64"
	registered.Status.NodeInfo.KernelVersion = kernelRelease()
	address := a.nodeIP
	if address == "" && !a.external {
		var settings Settings
		if err := ask(ctx, PathSettings, struct{}{}, &settings); err != nil {
			return err
		}
		address = settings.Address
	}
	if address != "" {
		registered.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: a.node},
		}
	}
	_, err = kube.CoreV1().Nodes().UpdateStatus(ctx, registered, metav1.UpdateOptions{})
	return err
}

const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// bootstrapTLS asks the cluster for a certificate, as the kubelet does with a
// bootstrap token.
func (a kubeletArgs) bootstrapTLS(ctx context.Context) error {
	config, err := clientcmd.LoadFromFile(a.bootstrap)
	if err != nil {
		return err
	}
	kube, err := clientFor(a.bootstrap)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + a.node, Organization: []string{"system:nodes"}},
	}, key)
	if err != nil {
		return err
	}
	request, err := kube.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := until(waiting, func() error {
		var err error
		request, err = kube.CertificatesV1().CertificateSigningRequests().Get(waiting, request.Name, metav1.GetOptions{})
		if err == nil && len(request.Status.Certificate) == 0 {
			err = errors.New("the certificate was not signed yet")
		}
		return err
	}); err != nil {
		return err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	user := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	user.Token = ""
	user.ClientCertificateData = request.Status.Certificate
	user.ClientKeyData = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	return clientcmd.WriteToFile(*config, a.kubeconfig)
}

// clientFor is a client with the rights of a kubeconfig file.
func clientFor(path string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	config.Timeout = 15 * time.Second
	config.QPS, config.Burst = 50, 100
	return kubernetes.NewForConfig(config)
}

// packageVersion is an installed package's version without its revision.
func packageVersion(name string) string {
	version, _, _ := strings.Cut(readList(packageList)[name], "-")
	if _, after, hasEpoch := strings.Cut(version, ":"); hasEpoch {
		return after
	}
	return version
}
