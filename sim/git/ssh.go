package git

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// keyExtension is under which the server keeps the key of a client.
const keyExtension = "key"

// sshServer serves the same repositories over SSH.
type sshServer struct {
	git      *Server
	listener net.Listener
	config   *ssh.ServerConfig
	host     ssh.PublicKey

	serving     sync.WaitGroup
	mu          sync.Mutex
	closed      bool
	connections map[net.Conn]context.CancelFunc
}

func (s *Server) startSSH(ctx context.Context) (*sshServer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &sshServer{git: s, listener: listener, host: signer.PublicKey(), connections: map[net.Conn]context.CancelFunc{}}
	server.config = &ssh.ServerConfig{PublicKeyCallback: server.authenticate}
	server.config.AddHostKey(signer)
	server.serving.Go(server.accept)
	return server, nil
}

// KnownHosts is a line for a known_hosts file that names the server's SSH host key.
func (s *Server) KnownHosts() []byte {
	return []byte(knownhosts.Line([]string{s.ssh.listener.Addr().String()}, s.ssh.host) + "\n")
}

// SSHURL is where the repository is cloned from over SSH.
func (r *Repository) SSHURL() string {
	return "ssh://git@" + r.server.ssh.listener.Addr().String() + "/" + r.name + ".git"
}

// close cuts all connections.
func (s *sshServer) close() error {
	s.mu.Lock()
	s.closed = true
	for connection, cancel := range s.connections {
		cancel()
		_ = connection.Close()
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.serving.Wait()
	return err
}

// authenticate lets a key in that any repository knows. Which ones it may use is
// decided when it asks for one, as hosters do.
func (s *sshServer) authenticate(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	s.git.mu.Lock()
	defer s.git.mu.Unlock()
	marshalled := string(key.Marshal())
	for _, r := range s.git.repositories {
		if _, ok := r.byKey(marshalled); ok {
			return &ssh.Permissions{Extensions: map[string]string{keyExtension: marshalled}}, nil
		}
	}
	return nil, errors.New("unknown key")
}

func (s *sshServer) accept() {
	for {
		connection, err := s.listener.Accept()
		if err != nil {
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			cancel()
			_ = connection.Close()
			return
		}
		s.connections[connection] = cancel
		s.serving.Go(func() {
			s.serve(ctx, connection)
			cancel()
			_ = connection.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.connections, connection)
		})
		s.mu.Unlock()
	}
}

// serve answers one client's sessions.
func (s *sshServer) serve(ctx context.Context, connection net.Conn) {
	server, channels, requests, err := ssh.NewServerConn(connection, s.config)
	if err != nil {
		s.git.log.DebugContext(ctx, "SSH client refused", "error", err)
		return
	}
	defer func() { _ = server.Close() }()
	var sessions sync.WaitGroup
	defer sessions.Wait()
	sessions.Go(func() { ssh.DiscardRequests(requests) })
	key := server.Permissions.Extensions[keyExtension]
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		sessions.Go(func() { s.session(ctx, key, channel, requests) })
	}
}

// session runs the one command of a session.
func (s *sshServer) session(ctx context.Context, key string, channel ssh.Channel, requests <-chan *ssh.Request) {
	defer func() { _ = channel.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	protocol := ""
	for request := range requests {
		switch request.Type {
		case "env":
			var variable struct{ Name, Value string }
			if ssh.Unmarshal(request.Payload, &variable) == nil && variable.Name == "GIT_PROTOCOL" {
				protocol = variable.Value
			}
			_ = request.Reply(true, nil)
		case "exec":
			var command struct{ Line string }
			if err := ssh.Unmarshal(request.Payload, &command); err != nil {
				_ = request.Reply(false, nil)
				return
			}
			_ = request.Reply(true, nil)
			// The client goes when its connection or its session ends.
			var rest sync.WaitGroup
			rest.Go(func() {
				for r := range requests {
					_ = r.Reply(false, nil)
				}
				cancel()
			})
			code := s.run(ctx, key, command.Line, protocol, channel)
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
			_ = channel.Close()
			rest.Wait()
			return
		default:
			_ = request.Reply(false, nil)
		}
	}
}

// run runs git's side of an operation, for those who may, and gives its exit code.
func (s *sshServer) run(ctx context.Context, key, line, protocol string, channel ssh.Channel) uint32 {
	refuse := func(text string) uint32 {
		_, _ = io.WriteString(channel.Stderr(), text+"\n")
		return 1
	}
	service, path, _ := strings.Cut(line, " ")
	if service != uploadPack && service != receivePack {
		return refuse("Hi there! You've successfully authenticated, but there is no shell access.")
	}
	repository, ok := s.git.repository(strings.Trim(path, "'\""))
	if !ok {
		return refuse("ERROR: Repository not found.")
	}
	grant, ok := repository.byKey(key)
	switch {
	case !ok:
		return refuse("ERROR: Repository not found.")
	case grant.ReadOnly && service == receivePack:
		return refuse("ERROR: The key you are authenticating with has been marked as read only.")
	}
	operation := Fetch
	if service == receivePack {
		operation = Push
	}
	if err := repository.strike(ctx, operation); err != nil {
		return refuse("ERROR: " + err.Error())
	}
	cmd := exec.CommandContext(ctx, s.git.git, strings.TrimPrefix(service, "git-"), repository.Dir())
	cmd.Env = []string{"HOME=" + s.git.dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "GIT_PROTOCOL=" + protocol}
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	// Not as cmd.Stdin: Wait would wait for a client that keeps its side open.
	stdin, input, err := os.Pipe()
	if err != nil {
		return refuse(err.Error())
	}
	cmd.Stdin = stdin
	err = cmd.Start()
	_ = stdin.Close()
	if err != nil {
		_ = input.Close()
		return refuse(fmt.Sprintf("start git: %v", err))
	}
	go func() {
		_, _ = io.Copy(input, channel)
		_ = input.Close()
	}()
	if err := cmd.Wait(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
			return uint32(exit.ExitCode()) //nolint:gosec // at most 255
		}
		return 1
	}
	return 0
}
