package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/kubeopera/platform/sim/machine/guest"
	"github.com/kubeopera/platform/sim/machine/imds"
)

// Addresses that every machine has at hand.
const (
	metadataAddress = "169.254.169.254"
	resolverAddress = "169.254.169.253"
)

// serve answers on the machine's network, until the machine's end: metadata, the
// host, the web, names, the AWS endpoint and API servers.
func (m *Machine) serve() error {
	endpoint, err := url.Parse(m.machines.config.Account.URL())
	if err != nil {
		return err
	}
	metadata := imds.New(imds.Config{Instance: m.metadata, Credentials: m.imdsCredentials})
	hostMux := m.hostHandler()
	hostIP, _, err := net.SplitHostPort(guest.Host)
	if err != nil {
		return err
	}
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		to, _, err := net.SplitHostPort(fmt.Sprint(address))
		switch {
		case !ok || err != nil:
			http.Error(w, "no address", http.StatusBadGateway)
		case to == metadataAddress:
			metadata.ServeHTTP(w, r)
		case to == hostIP:
			hostMux.ServeHTTP(w, r)
		default:
			m.machines.web.ServeHTTP(w, r)
		}
	})
	for address, serve := range map[string]func(net.Listener){
		"0.0.0.0:80":  m.serveHTTP(plain),
		"0.0.0.0:443": func(l net.Listener) { m.serveHTTP(m.machines.web)(m.machines.web.TLS(l)) },
		endpoint.Host: func(l net.Listener) {
			m.accept(l, func(c net.Conn) {
				m.carry(c, func(ctx context.Context) (net.Conn, error) { return dial(ctx, endpoint.Host) }, nil)
			})
		},
	} {
		listener, err := m.network.Listen(m.ctx, "tcp4", address)
		if err != nil {
			return fmt.Errorf("listen at %s of the machine: %w", address, err)
		}
		m.machines.wait.Go(func() { serve(listener) })
		context.AfterFunc(m.ctx, func() { _ = listener.Close() })
	}
	names, err := m.network.ListenPacket(m.ctx, "udp4", net.JoinHostPort(resolverAddress, "53"))
	if err != nil {
		return fmt.Errorf("listen for names: %w", err)
	}
	context.AfterFunc(m.ctx, func() { _ = names.Close() })
	m.machines.wait.Go(func() { m.resolve(names) })
	return nil
}

func (m *Machine) serveHTTP(handler http.Handler) func(net.Listener) {
	return func(listener net.Listener) {
		server := &http.Server{
			Handler: handler, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return m.ctx },
			ErrorLog: slog.NewLogLogger(m.machines.config.Log.Handler(), slog.LevelDebug),
		}
		stop := context.AfterFunc(m.ctx, func() { _ = server.Close() })
		defer stop()
		_ = server.Serve(listener) // it ends when the machine does
	}
}

// accept handles connections until the listener closes.
func (m *Machine) accept(listener net.Listener, handle func(net.Conn)) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		m.machines.wait.Go(func() { handle(connection) })
	}
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", address)
}

// metadata is what the metadata service tells.
func (m *Machine) metadata() imds.Instance {
	i := m.Instance()
	out := imds.Instance{
		ID: i.ID, Type: i.Type, AMI: i.ImageID, AccountID: m.machines.config.Account.ID(), Region: i.Region, AvailabilityZone: i.Zone,
		PrivateIP: i.PrivateIP, PublicIP: i.PublicIP, PrivateDNSName: i.PrivateDNS, MAC: m.mac, InstanceProfile: i.ProfileARN,
		UserData: m.userData, LaunchTime: i.LaunchedAt,
	}
	role, err := m.roleARN(m.ctx)
	if err != nil {
		m.machines.config.Log.WarnContext(m.ctx, "role not found", "instance", i.ID, "error", err)
	}
	out.Role = after(role, "/")
	return out
}

func (m *Machine) imdsCredentials() (imds.Credentials, error) {
	key, err := m.credentials()
	if err != nil {
		return imds.Credentials{}, err
	}
	return imds.Credentials{
		AccessKeyID: key.ID, SecretAccessKey: key.Secret, Token: key.SessionToken, Issued: time.Now(), Expiration: key.ExpiresAt,
	}, nil
}

// hostHandler answers the machine's stand-ins.
func (m *Machine) hostHandler() http.Handler {
	mux := http.NewServeMux()
	handle(mux, guest.PathSettings, func(context.Context, struct{}) (guest.Settings, error) {
		i := m.Instance()
		cpus, memory := sizeOf(i.Type)
		return guest.Settings{
			InstanceID: i.ID, InstanceType: i.Type, CPUs: cpus, MemoryMiB: memory, Address: i.PrivateIP, MaxWait: m.machines.config.KubeadmWait,
		}, nil
	})
	handle(mux, guest.PathNewCluster, m.newCluster)
	handle(mux, guest.PathEtcd, m.etcd)
	handle(mux, guest.PathCertificate, func(_ context.Context, c guest.Certificate) (struct{}, error) {
		cluster, ok := m.machines.clusterOf(c.ClusterID)
		if !ok {
			return struct{}{}, errors.New("the cluster is gone")
		}
		return struct{}{}, cluster.ControlPlane().AddCertificateNames(c.Names...)
	})
	mux.HandleFunc("POST "+guest.PathKubelet, m.kubeletCall)
	return mux
}

// handle answers one path. An error is 409 with its text.
func handle[Q, A any](mux *http.ServeMux, path string, do func(context.Context, Q) (A, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var question Q
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := do(r.Context(), question)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		_ = json.NewEncoder(w).Encode(answer) // who is gone does not read it
	})
}

// kubeletCall lasts as long as the kubelet does.
func (m *Machine) kubeletCall(w http.ResponseWriter, r *http.Request) {
	var k guest.Kubelet
	if err := json.NewDecoder(r.Body).Decode(&k); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	call := m.kubeletBegan(k)
	// The server notices that the other side is gone only while it reads.
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	m.kubeletEnded(call)
}

// sizeOf is what kubeadm finds too small; larger types are not told apart.
func sizeOf(kind string) (cpus, memoryMiB int) {
	switch after(kind, ".") {
	case "nano":
		return 1, 512
	case "micro":
		return 1, 1024
	case "small":
		return 2, 2048
	case "medium":
		return 2, 4096
	}
	return 4, 8192
}
