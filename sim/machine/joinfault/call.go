package joinfault

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// call is a program that a script calls, from its start to its exit.
type call struct {
	world      *World
	process    *process
	run        string // of the process
	machine    *machine
	args       []string // the program first
	connection net.Conn

	next  func() (time.Duration, bool) // to the next wait of the program
	stop  func()
	yield func(time.Duration) bool
	until time.Duration // 0, or when timeout ends the program

	code             int
	output, problems bytes.Buffer
	label            string // what it is, for the timeline and for kills
}

// accept takes calls until the listener is closed.
func (w *World) accept(ctx context.Context) {
	var readers sync.WaitGroup
	defer readers.Wait()
	for {
		connection, err := w.listener.Accept()
		if err != nil {
			return
		}
		readers.Go(func() {
			c, err := read(connection)
			if err != nil {
				_ = connection.Close() // killed while it asked
				return
			}
			select {
			case w.calls <- c:
			case <-ctx.Done():
				_ = connection.Close()
			}
		})
	}
}

func read(connection net.Conn) (*call, error) {
	var length uint32
	if err := binary.Read(connection, binary.BigEndian, &length); err != nil {
		return nil, err
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(connection, text); err != nil {
		return nil, err
	}
	words := strings.Split(string(text), "\x00")
	return &call{run: words[0], args: words[1:], connection: connection}, nil
}

// What ends a program before it is through.
var (
	errKilled  = errors.New("killed")
	errTimeout = errors.New("timeout")
	errExit    = errors.New("exit")
)

// begin starts what a program does.
func (w *World) begin(c *call) {
	p := w.processes[c.run]
	if p == nil {
		c.hangUp()
		return
	}
	c.world, c.process, c.machine = w, p, p.machine
	p.calls[c] = true
	if c.args[0] == "timeout" {
		seconds, err := time.ParseDuration(c.args[1] + "s")
		if err != nil {
			w.violate("timeout %s: %v", c.args[1], err)
		}
		c.until, c.args = w.now+seconds, c.args[2:]
	}
	w.watchArguments(c)
	c.label = label(c.args)
	if c.label == "put cluster_state" && c.machine.doomed && c.machine.made() {
		// The cluster that it publishes would be lost with it, whoever errs.
		w.after(0, func() { w.terminate(c.machine) })
		return
	}
	c.next, c.stop = iter.Pull(iter.Seq[time.Duration](func(yield func(time.Duration) bool) {
		c.yield = yield
		c.perform()
	}))
	if c.label != "" && w.reached(c.machine, c.label) {
		w.after(0, func() { w.step(c) }) // if it still lives
		return
	}
	w.step(c)
}

// step lets a program go on to its next wait or its end.
func (w *World) step(c *call) {
	if !c.process.calls[c] {
		return
	}
	if d, more := c.next(); more {
		w.after(d, func() { w.step(c) })
		return
	}
	delete(c.process.calls, c)
	c.answer()
}

// perform does what the program does; its waits panic when it ends early.
func (c *call) perform() {
	defer func() {
		switch reason := recover(); reason {
		case nil, errKilled, errExit:
		case errTimeout:
			c.code = 124
		default:
			panic(reason)
		}
	}()
	switch c.args[0] {
	case "aws":
		c.aws()
	case "containerd":
		c.print("version = 3\n  SystemdCgroup = false\n")
	case "curl":
		c.metadata()
	case "date":
		c.date()
	case "kubeadm":
		c.kubeadm()
	case "kubectl":
		c.kubectl()
	case "sleep":
		c.sleep()
	case "systemctl":
		c.systemctl()
	default:
		c.fail(127, "%s: command not found", c.args[0])
	}
}

// wait lets time go by, of which others make use.
func (c *call) wait(d time.Duration) {
	late := c.until > 0 && c.world.now+d > c.until
	if late {
		d = c.until - c.world.now
	}
	if !c.yield(d) {
		panic(errKilled)
	}
	if late {
		panic(errTimeout)
	}
}

// poll waits until a condition holds, and says whether it did in time.
func (c *call) poll(most time.Duration, holds func() bool) bool {
	for end := c.world.now + most; !holds(); {
		if c.world.now >= end {
			return false
		}
		c.wait(5 * time.Second)
	}
	return true
}

// fail ends the program with a message.
func (c *call) fail(code int, format string, args ...any) {
	c.code = code
	fmt.Fprintf(&c.problems, format+"\n", args...)
	panic(errExit)
}

func (c *call) print(format string, args ...any) { fmt.Fprintf(&c.output, format, args...) }

// answer is the program's exit.
func (c *call) answer() {
	frame := binary.BigEndian.AppendUint32([]byte{byte(c.code)}, uint32(c.output.Len())) //nolint:gosec // codes are below 256, outputs short
	_, _ = c.connection.Write(append(append(frame, c.output.Bytes()...), c.problems.Bytes()...))
	c.hangUp()
}

// cancel ends a program that was killed.
func (c *call) cancel() {
	delete(c.process.calls, c)
	if c.stop != nil {
		c.stop()
	}
	c.hangUp()
}

func (c *call) hangUp() { _ = c.connection.Close() }

// option is the value of an option.
func (c *call) option(name string) string {
	for i, arg := range c.args {
		if arg == name && i+1 < len(c.args) {
			return c.args[i+1]
		}
	}
	return ""
}

func (c *call) has(word string) bool { return slices.Contains(c.args, word) }

// label is a call in a few words. Calls that say nothing of the protocol have none.
func label(args []string) string {
	text := strings.Join(args, " ")
	after := func(option string) string {
		for i, arg := range args {
			if arg == option && i+1 < len(args) {
				return args[i+1]
			}
		}
		return ""
	}
	switch {
	case strings.HasPrefix(text, "aws ssm put-parameter"):
		return "put " + strings.TrimPrefix(after("--name"), prefix)
	case strings.HasPrefix(text, "aws ssm get-parameters"):
		return "get " + strings.TrimPrefix(after("--names"), prefix)
	case strings.HasPrefix(text, "aws"):
		return strings.Join(args[1:min(len(args), 3)], " ")
	case args[0] == "kubeadm" && len(args) > 2:
		return strings.TrimSuffix(strings.Join(args[:3], " "), " --config")
	case args[0] == "kubectl":
		words := []string{"kubectl"}
		for _, arg := range args[1:] {
			if !strings.HasPrefix(arg, "-") && !strings.Contains(arg, "://") && !strings.Contains(arg, "admin.conf") && !strings.Contains(arg, "{") {
				words = append(words, arg)
			}
		}
		return strings.Join(words, " ")
	case args[0] == "systemctl":
		return text
	}
	return ""
}
