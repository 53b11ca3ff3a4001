package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	kubernetesDir = "/etc/kubernetes"
	pkiDir        = kubernetesDir + "/pki"
	adminConf     = kubernetesDir + "/admin.conf"
)

// kubeadm stands in for kubeadm: the same commands, files, objects in the cluster
// and words of failure as far as bootstrap scripts come by them. The checks of
// tokens, certificates, keys and etcd members are made as the real one makes them,
// against the real API server; only what it would start are stand-ins.
func kubeadm(ctx context.Context, args []string, io stdio) int {
	k := &kubeadmCall{io: io}
	words, err := k.parse(args)
	if err == nil {
		err = k.run(ctx, words)
	}
	if err == nil {
		return 0
	}
	if problems, ok := errors.AsType[*preflightError](err); ok {
		io.errorf("%v\n", problems)
		return 2
	}
	io.errorf("error: %v\nTo see the stack trace of this error execute with --v=5 or higher\n", err)
	return 1
}

// kubeadmCall is one call.
type kubeadmCall struct {
	io     stdio
	values map[string]string // of flags, without dashes; "true" where a flag has none
	config *kubeadmConfig
}

// valueless are the flags that take no value.
var valueless = []string{
	"upload-certs", "skip-token-print", "skip-certificate-key-print", "force", "f", "control-plane", "print-join-command",
	"discovery-token-unsafe-skip-ca-verification", "cleanup-tmp-dir", "dry-run", "help",
}

func (k *kubeadmCall) parse(args []string) (words []string, err error) {
	k.values = map[string]string{}
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			words = append(words, args[i])
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case hasValue:
		case slices.Contains(valueless, name):
			value = "true"
		case i+1 < len(args):
			i++
			value = args[i]
		default:
			return nil, fmt.Errorf("flag needs an argument: --%s", name)
		}
		if old := k.values[name]; old != "" && value != "" {
			value = old + "," + value
		}
		k.values[name] = value
	}
	return words, nil
}

func (k *kubeadmCall) flag(name, fallback string) string {
	if value := k.values[name]; value != "" {
		return value
	}
	return fallback
}

func (k *kubeadmCall) run(ctx context.Context, words []string) error {
	var err error
	if k.config, err = k.loadConfig(); err != nil {
		return err
	}
	verb := strings.Join(words[:min(len(words), 3)], " ")
	switch {
	case verb == "version":
		k.io.printf("v%s\n", packageVersion("kubeadm"))
		return nil
	case verb == "init":
		return k.init(ctx)
	case verb == "init phase upload-certs":
		return k.uploadCertsPhase(ctx)
	case len(words) > 0 && words[0] == "join" && len(words) <= 2:
		if len(words) == 2 {
			k.config.join.Discovery.BootstrapToken.APIServerEndpoint = words[1]
		}
		return k.join(ctx)
	case verb == "reset":
		return k.reset(ctx)
	case len(words) > 1 && words[0] == "token":
		return k.token(ctx, words[1:])
	case verb == "kubeconfig user":
		return k.userKubeconfig()
	case verb == "certs renew all" || verb == "certs check-expiration":
		return k.renewCertificates(words[1] == "renew")
	case verb == "certs certificate-key":
		key, err := newCertificateKey()
		k.io.printf("%s\n", key)
		return err
	case verb == "config images pull" || verb == "config images list":
		version := strings.TrimPrefix(k.flag("kubernetes-version", k.config.cluster.KubernetesVersion), "v")
		for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
			k.io.printf("[config/images] Pulled registry.k8s.io/%s:v%s\n", name, version)
		}
		return nil
	case verb == "config validate":
		k.io.printf("ok\n")
		return nil
	}
	return fmt.Errorf("the light machine does not have kubeadm %s", strings.Join(words, " "))
}

// userKubeconfig is `kubeadm kubeconfig user`: an identity that the CA signs.
func (k *kubeadmCall) userKubeconfig() error {
	name := k.flag("client-name", "")
	if name == "" {
		return errors.New(`required flag(s) "client-name" not set`)
	}
	life := 365 * 24 * time.Hour
	if text := k.flag("validity-period", ""); text != "" {
		var err error
		if life, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("invalid argument %q for \"--validity-period\" flag: %w", text, err)
		}
	}
	if k.flag("config", "") == "" {
		return errors.New("the light machine needs --config for kubeconfig user")
	}
	authority, err := loadAuthority()
	if err != nil {
		return err
	}
	var groups []string
	if text := k.flag("org", ""); text != "" {
		groups = strings.Split(text, ",")
	}
	content, err := kubeconfigOf(authority, "https://"+k.config.endpoint(), k.config.cluster.ClusterName, name, life, groups...)
	if err != nil {
		return err
	}
	_, err = k.io.out.Write(content)
	return err
}

// reset takes back what init or join has made. A member of etcd leaves it, if
// etcd can be asked.
func (k *kubeadmCall) reset(ctx context.Context) error {
	if k.flag("force", k.flag("f", "")) == "" {
		return errors.New("won't proceed; the user didn't answer (Y|y) in order to continue")
	}
	k.io.printf("[preflight] Running pre-flight checks\n")
	if data, ok := ownData(); ok {
		call := Etcd{Do: EtcdRemove, Member: Member{ID: data.MemberID}}
		asking, cancel := context.WithTimeout(ctx, time.Minute)
		err := ask(asking, PathEtcd, call, nil)
		cancel()
		if err != nil {
			k.io.errorf("[reset] Failed to remove etcd member: %v, please manually remove this etcd member using etcdctl\n", err)
		}
	}
	k.io.printf("[reset] Stopping the kubelet service\n")
	if err := service(ctx, "stop", "kubelet"); err != nil {
		k.io.errorf("[reset] WARNING: %v\n", err)
	}
	for _, path := range []string{
		kubernetesDir + "/manifests", pkiDir, adminConf, kubernetesDir + "/super-admin.conf", kubernetesDir + "/kubelet.conf",
		kubernetesDir + "/bootstrap-kubelet.conf", kubernetesDir + "/controller-manager.conf", kubernetesDir + "/scheduler.conf",
		"/var/lib/etcd/member", "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env",
	} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	k.io.printf("[reset] Deleting contents of directories and files\n")
	return nil
}
