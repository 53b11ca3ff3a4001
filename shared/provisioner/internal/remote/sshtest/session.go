//go:build unix

package sshtest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/crypto/ssh"
)

// session executes one command.
func (s *Server) session(offer ssh.NewChannel, conn *faultyConn) {
	ch, requests, err := offer.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	for r := range requests {
		if r.Type != "exec" || s.now().RefuseExec {
			_ = r.Reply(false, nil)
			continue
		}
		var payload struct{ Command string }
		if ssh.Unmarshal(r.Payload, &payload) != nil {
			_ = r.Reply(false, nil)
			return
		}
		_ = r.Reply(true, nil)
		// The client's closing of the channel ends the requests.
		gone := make(chan struct{})
		go func() {
			ssh.DiscardRequests(requests)
			close(gone)
		}()
		if s.now().MuteSessions {
			select {
			case <-gone:
			case <-conn.closed:
			}
			return
		}
		s.execute(ch, payload.Command, gone)
		return
	}
}

// execute runs a command as sshd does: its ends of the pipes are closed when the
// client is gone, and nothing else happens to the processes.
func (s *Server) execute(ch ssh.Channel, command string, gone <-chan struct{}) {
	s.mu.Lock()
	s.sessions++
	s.mu.Unlock()
	if s.options.Noise != "" {
		_, _ = io.WriteString(ch, s.options.Noise)
	}
	// Not bound to a context: it outlives the connection.
	cmd := exec.CommandContext(context.Background(), s.options.Shell, "-c", command)
	cmd.Dir = s.Dir
	cmd.Env = []string{
		"PATH=" + filepath.Join(s.Dir, "bin") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + s.Dir, "SSHTEST_DIR=" + s.Dir,
	}
	in, inW, err1 := os.Pipe()
	outR, out, err2 := os.Pipe()
	errR, errW, err3 := os.Pipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		s.tb.Error(err)
		return
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errW
	err := cmd.Start()
	for _, f := range []*os.File{in, out, errW} {
		_ = f.Close()
	}
	if err != nil {
		s.tb.Error(err)
		return
	}
	var input, output sync.WaitGroup
	input.Go(func() {
		_, _ = io.Copy(inW, ch)
		_ = inW.Close()
	})
	output.Go(func() { _, _ = io.Copy(ch, outR) })
	output.Go(func() { _, _ = io.Copy(ch.Stderr(), errR) })
	ended := make(chan struct{})
	go func() {
		output.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-gone:
	}
	for _, f := range []*os.File{outR, errR} {
		_ = f.Close()
	}
	<-ended
	status := make(chan uint32, 1)
	go func() {
		code := 0
		if exit, failed := errors.AsType[*exec.ExitError](cmd.Wait()); failed {
			code = exit.ExitCode()
		}
		if code < 0 { // killed
			code = 255
		}
		status <- uint32(code)
	}()
	select {
	case code := <-status:
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{code}))
	case <-gone:
		s.tasks.Go(func() { <-status }) // reaped whenever it ends
	}
	_ = ch.Close()
	_ = inW.Close()
	input.Wait()
}

// forward connects a channel to where it wants to go.
func forward(offer ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(offer.ExtraData(), &to); err != nil {
		_ = offer.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	address := net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		_ = offer.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer conn.Close()
	ch, requests, err := offer.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	var tasks sync.WaitGroup
	tasks.Go(func() { ssh.DiscardRequests(requests) })
	tasks.Go(func() {
		_, _ = io.Copy(conn, ch)
		_ = conn.Close()
	})
	_, _ = io.Copy(ch, conn)
	_ = ch.Close()
	tasks.Wait()
}
