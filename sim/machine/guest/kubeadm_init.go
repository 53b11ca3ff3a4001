package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
)

// init is `kubeadm init`.
func (k *kubeadmCall) init(ctx context.Context) error {
	c := k.config
	if err := ownAddressOnly(ctx, &c.init.LocalAPIEndpoint); err != nil {
		return err
	}
	if err := c.checkInit(packageVersion("kubeadm")); err != nil {
		return err
	}
	k.io.printf("[init] Using Kubernetes version: %s\n", c.cluster.KubernetesVersion)
	if err := k.preflight(ctx, true, false); err != nil {
		return err
	}
	address := c.init.LocalAPIEndpoint.AdvertiseAddress
	if net.ParseIP(address) == nil {
		return fmt.Errorf("localAPIEndpoint.advertiseAddress: Invalid value: %q: ip address is not valid", address)
	}
	node := c.init.NodeRegistration
	names, err := c.names(node.Name, address)
	if err != nil {
		return err
	}
	if err := writeManifest("etcd"); err != nil { // first: from here on there is no second init
		return err
	}
	var made Cluster
	if err := ask(ctx, PathNewCluster, NewCluster{
		Names: names, ServiceCIDR: c.cluster.Networking.ServiceSubnet,
		Member: Member{Name: node.Name, PeerURL: peerURL(address)},
	}, &made); err != nil {
		return fmt.Errorf("error execution phase etcd/local: %w", err)
	}
	k.io.printf("[certs] Using certificateDir folder %q\n", pkiDir)
	for _, name := range sharedFiles() {
		content := made.CACertificate
		if strings.HasSuffix(name, ".key") {
			content = made.CAKey
		}
		if err := writeFile(pkiDir+"/"+name, content, 0o600); err != nil {
			return err
		}
	}
	authority, err := loadAuthority()
	if err != nil {
		return err
	}
	if err := writeLeaves(authority, names); err != nil {
		return err
	}
	local := "https://" + net.JoinHostPort(address, "6443")
	if err := errors.Join(
		k.writeKubeconfigs(authority, node.Name, local, true),
		k.writeKubelet(node, true),
		writeData(made.Data),
		writeManifest("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
	); err != nil {
		return err
	}
	k.io.printf("[etcd] Creating static Pod manifest for local etcd in %q\n", kubernetesDir+"/manifests")
	if err := startKubelet(ctx); err != nil {
		return fmt.Errorf("error execution phase kubelet-start: %w", err)
	}
	k.io.printf("[wait-control-plane] Waiting for the kubelet to boot up the control plane as static Pods from directory %q\n", kubernetesDir+"/manifests")
	kube, err := localClient(kubernetesDir+"/super-admin.conf", local)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, span(c.init.Timeouts.Component, 4*time.Minute))
	defer cancel()
	if err := until(waiting, func() error { return ready(waiting, kube) }); err != nil {
		return fmt.Errorf("error execution phase wait-control-plane: failed while waiting for the control plane to start: kube-apiserver check failed at %s/livez: %w", local, err)
	}
	return k.finishInit(ctx, kube, node, names)
}

// ownAddressOnly sets the address that the API server announces, unless it is
// given: that of the default route. etcd cannot listen at another one, such as an
// elastic IP.
func ownAddressOnly(ctx context.Context, endpoint *localAPIEndpoint) error {
	var settings Settings
	if err := ask(ctx, PathSettings, struct{}{}, &settings); err != nil {
		return err
	}
	setDefault(&endpoint.AdvertiseAddress, settings.Address)
	if given := net.ParseIP(endpoint.AdvertiseAddress); given != nil && !given.Equal(net.ParseIP(settings.Address)) {
		return fmt.Errorf("error execution phase wait-control-plane: etcd: listen tcp %s: bind: cannot assign requested address", net.JoinHostPort(given.String(), "2380"))
	}
	return nil
}

// finishInit makes what lives in the cluster.
func (k *kubeadmCall) finishInit(ctx context.Context, kube kubernetes.Interface, node nodeRegistration, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	k.io.printf("[upload-config] Storing the configuration used in ConfigMap \"kubeadm-config\" in the \"kube-system\" Namespace\n")
	if err := k.uploadConfig(ctx, kube); err != nil {
		return fmt.Errorf("error execution phase upload-config/kubeadm: %w", err)
	}
	if k.flag("upload-certs", "") != "" {
		if err := k.uploadCerts(ctx, kube, k.config.init.CertificateKey); err != nil {
			return fmt.Errorf("error execution phase upload-certs: %w", err)
		}
	} else {
		k.io.printf("[upload-certs] Skipping phase. Please see --upload-certs\n")
	}
	k.io.printf("[mark-control-plane] Marking the node %s as control-plane\n", node.Name)
	if err := markControlPlane(ctx, kube, node.Name); err != nil {
		return fmt.Errorf("error execution phase mark-control-plane: %w", err)
	}
	if err := bootstrapRules(ctx, kube); err != nil {
		return fmt.Errorf("error execution phase bootstrap-token: %w", err)
	}
	tokens := k.config.init.BootstrapTokens
	if len(tokens) == 0 {
		tokens = []bootstrapToken{{Token: newToken()}}
	}
	for _, token := range tokens {
		if err := createToken(ctx, kube, token.Token, span(token.TTL, 24*time.Hour), "The default bootstrap token generated by 'kubeadm init'."); err != nil {
			return fmt.Errorf("error execution phase bootstrap-token: %w", err)
		}
	}
	if err := k.publishClusterInfo(ctx, kube); err != nil {
		return fmt.Errorf("error execution phase bootstrap-token: %w", err)
	}
	if err := addons(ctx, kube, strings.TrimPrefix(k.config.cluster.KubernetesVersion, "v")); err != nil {
		return fmt.Errorf("error execution phase addon: %w", err)
	}
	k.io.printf("[addons] Applied essential addon: CoreDNS\n[addons] Applied essential addon: kube-proxy\n\nYour Kubernetes control-plane has initialized successfully!\n")
	if k.flag("skip-token-print", "") == "" {
		authority, err := os.ReadFile(pkiDir + "/ca.crt")
		if err != nil {
			return err
		}
		certificate, err := parseCertificate(authority)
		if err != nil {
			return err
		}
		k.io.printf("\nkubeadm join %s --token %s \\\n\t--discovery-token-ca-cert-hash %s\n", k.config.endpoint(), tokens[0].Token, caHash(certificate))
	}
	_ = names
	return nil
}

// names are what kubeadm puts into the API server's certificate.
func (c *kubeadmConfig) names(node, address string) ([]string, error) {
	prefix, err := netip.ParsePrefix(c.cluster.Networking.ServiceSubnet)
	if err != nil {
		return nil, fmt.Errorf("networking.serviceSubnet: Invalid value: %q", c.cluster.Networking.ServiceSubnet)
	}
	host, _, _ := strings.Cut(c.endpoint(), ":")
	names := []string{
		node, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		prefix.Masked().Addr().Next().String(), address, host,
	}
	return append(names, c.cluster.APIServer.CertSANs...), nil
}

func peerURL(address string) string { return "https://" + net.JoinHostPort(address, "2380") }

func startKubelet(ctx context.Context) error {
	if err := service(ctx, "daemon-reload"); err != nil {
		return err
	}
	return service(ctx, "restart", "kubelet")
}
