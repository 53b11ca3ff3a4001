package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kubeopera/platform/sim/pki"
)

const (
	// address is where all of the control plane listens.
	address = "127.0.0.1"
	// startTimeout is for one process, on a machine that is busy with builds.
	startTimeout = 90 * time.Second
	// stopTimeout is how long kube-apiserver may wait for open watches before it
	// is killed. Without any it ends in about a second.
	stopTimeout = 5 * time.Second
)

// Config says which control plane to run.
type Config struct {
	// Assets is the directory with the binaries, as printed by tools/control-plane.
	Assets string
	// Dir is for certificates, etcd's data and logs. It is made if need be.
	Dir string
	// Port is kube-apiserver's; 0 takes a free one.
	Port int
	// CertificateNames are DNS names and addresses that kube-apiserver's
	// certificate holds besides 127.0.0.1 and localhost.
	CertificateNames []string
	// ControllerManager starts kube-controller-manager.
	ControllerManager bool
	// Controllers are those that it runs; nil: those that the platform's own
	// objects need.
	Controllers []string
	// Flags are further flags of kube-apiserver, without dashes.
	Flags map[string]string
	// AcceptOwnCertificates lets clients in with certificates that the authority
	// of kube-apiserver's own certificate has signed (see Authority).
	AcceptOwnCertificates bool
	// AuthenticationWebhook is the path of a kubeconfig file that says which
	// server reviews bearer tokens that are not of ServiceAccounts.
	AuthenticationWebhook string
	// CRDs are files or directories with CustomResourceDefinitions to install.
	CRDs []string
	// Log gets what happens here, not the processes' own logs.
	Log *slog.Logger
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	config     Config
	env        *envtest.Environment
	rest       *rest.Config
	authority  *pki.Authority
	namesLock  sync.Mutex
	names      []string // that kube-apiserver's certificate holds
	kubeletTLS *tls.Config
	manager    *controllerManager // nil without one
	successor  *exec.Cmd          // of envtest's kube-apiserver, once it was restarted
	logs       []io.Closer
}

// Start runs a control plane and returns once it serves.
func Start(ctx context.Context, config Config) (*ControlPlane, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	names := []string{"kube-apiserver", "etcd"}
	if config.ControllerManager {
		names = append(names, managerBinary)
	}
	if err := checkAssets(config.Assets, names); err != nil {
		return nil, err
	}
	// envtest's library has one logger for the whole program and complains on
	// standard error if nobody sets it. What it has to say is in its errors too.
	ctrllog.SetLogger(logr.Discard())
	c := &ControlPlane{config: config}
	started := time.Now()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane: %w", err), c.Stop(context.WithoutCancel(ctx)))
	}
	config.Log.DebugContext(ctx, "control plane started", "url", c.URL(), "took", time.Since(started).Round(time.Millisecond))
	return c, nil
}

// checkAssets names all binaries that a directory lacks.
func checkAssets(dir string, names []string) error {
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && !info.IsDir()
	})
	if len(missing) > 0 {
		return fmt.Errorf("start control plane: %s not found in %q: run tools/control-plane", strings.Join(missing, ", "), dir)
	}
	return nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	certificates := c.certificateDir()
	data := filepath.Join(c.config.Dir, "etcd")
	for _, dir := range []string{certificates, data, c.logDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := c.makeCertificates(certificates); err != nil {
		return err
	}

	existing := false
	c.env = &envtest.Environment{
		UseExistingCluster:       &existing,
		BinaryAssetsDirectory:    c.config.Assets,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  stopTimeout,
		CRDDirectoryPaths:        c.config.CRDs,
		ErrorIfCRDPathMissing:    true,
	}
	c.env.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(c.config.Assets, "etcd"), DataDir: data}
	output, err := c.logFile("etcd")
	if err != nil {
		return err
	}
	c.env.ControlPlane.Etcd.Out, c.env.ControlPlane.Etcd.Err = output, output

	server := c.env.ControlPlane.GetAPIServer()
	server.Path = filepath.Join(c.config.Assets, "kube-apiserver")
	server.CertDir = certificates
	server.CA = c.authority.PEM()
	server.Address = address
	if c.config.Port != 0 {
		server.Port = strconv.Itoa(c.config.Port)
	}
	if output, err = c.logFile("kube-apiserver"); err != nil {
		return err
	}
	server.Out, server.Err = output, output
	flags := server.Configure()
	// envtest turns ServiceAccount admission off by default; here the controller
	// that makes the default account runs.
	flags.Disable("disable-admission-plugins")
	// Otherwise a machine without a default route is refused.
	flags.Set("advertise-address", address)
	flags.Set("endpoint-reconciler-type", "none")
	flags.Set("kubelet-preferred-address-types", "InternalIP")
	flags.Set("kubelet-certificate-authority", filepath.Join(certificates, kubeletAuthorityFile))
	flags.Set("kubelet-client-certificate", filepath.Join(certificates, kubeletClientName+".crt"))
	flags.Set("kubelet-client-key", filepath.Join(certificates, kubeletClientName+".key"))
	if !c.config.ControllerManager {
		// Nothing makes a namespace's default account here.
		flags.Set("disable-admission-plugins", "ServiceAccount")
	}
	if c.config.AuthenticationWebhook != "" {
		flags.Set("authentication-token-webhook-config-file", c.config.AuthenticationWebhook)
		flags.Set("authentication-token-webhook-version", "v1")
		// A revoked or expired token is refused soon.
		flags.Set("authentication-token-webhook-cache-ttl", "1s")
	}

	for name, value := range c.config.Flags {
		flags.Set(name, value)
	}
	if c.rest, err = c.env.Start(); err != nil {
		return fmt.Errorf("%w (logs in %s)", err, c.logDir())
	}
	if c.config.AcceptOwnCertificates {
		if err := c.acceptOwnCertificates(ctx, certificates); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.config.ControllerManager {
		if c.manager, err = c.startControllerManager(ctx, certificates); err != nil {
			return err
		}
	}
	return nil
}

// URL is where kube-apiserver serves, without a slash at the end.
func (c *ControlPlane) URL() string { return strings.TrimSuffix(c.rest.Host, "/") }

// CABundle is the authority of kube-apiserver's certificate, as PEM.
func (c *ControlPlane) CABundle() []byte { return c.authority.PEM() }

// Authority signs kube-apiserver's certificate.
func (c *ControlPlane) Authority() *pki.Authority { return c.authority }

// RESTConfig is for a client with all rights. The caller may change it.
func (c *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// KubeletTLS is for a server that kube-apiserver accepts as a kubelet on
// 127.0.0.1, and which accepts only kube-apiserver.
func (c *ControlPlane) KubeletTLS() *tls.Config { return c.kubeletTLS.Clone() }

// Stop ends the processes, the last started first. Watches that are still open
// hold kube-apiserver up for some seconds, so clients are better stopped before.
func (c *ControlPlane) Stop(ctx context.Context) error {
	var problems []error
	if c.manager != nil {
		problems = append(problems, c.manager.stop())
	}
	c.stopSuccessor()
	if c.env != nil {
		if err := c.env.Stop(); err != nil {
			// envtest has then killed kube-apiserver but not touched etcd.
			c.config.Log.WarnContext(ctx, "control plane was killed", "error", err)
			if c.env.ControlPlane.Etcd != nil {
				problems = append(problems, c.env.ControlPlane.Etcd.Stop())
			}
		}
	}
	for _, log := range c.logs {
		problems = append(problems, log.Close())
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("stop control plane: %w", err)
	}
	return nil
}

func (c *ControlPlane) certificateDir() string { return filepath.Join(c.config.Dir, "certificates") }

func (c *ControlPlane) logDir() string { return filepath.Join(c.config.Dir, "logs") }

// logFile opens a process's log, which Stop closes.
func (c *ControlPlane) logFile(name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(c.logDir(), name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	c.logs = append(c.logs, file)
	return file, nil
}
