package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kubeopera/platform/sim/machine/cloudinit"
	"github.com/kubeopera/platform/sim/machine/systemd"
)

const managerName = "machine-manager"

// Exit codes of a machine's first process, which tell its host what to do next.
const (
	ExitOff    = 0
	ExitReboot = 64
)

// searchPath is the PATH of services and of cloud-init's scripts.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"

// firstProcess starts the manager, passes signals on and reaps orphans. It ends
// with the manager, and the kernel ends the rest.
func firstProcess() int {
	terminals()
	chooseKernel()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	manager, err := os.StartProcess("/proc/self/exe", []string{managerName}, &os.ProcAttr{
		Files: []*os.File{nil, os.Stdout, os.Stderr}, Env: os.Environ(),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the service manager:", err)
		return 1
	}
	go func() {
		for s := range signals {
			_ = manager.Signal(s)
		}
	}()
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1
		case ended == manager.Pid && status.Exited():
			return status.ExitStatus()
		case ended == manager.Pid && status.Signaled():
			return 128 + int(status.Signal())
		}
	}
}

// manage boots the machine and supervises it until it is told to shut down.
func manage(ctx context.Context, _ []string, io stdio) int {
	unix.Umask(0o022)
	journal, err := systemd.NewJournal(journalFile, io.out)
	if err != nil {
		io.errorf("open the journal: %v\n", err)
		return 1
	}
	exit := make(chan int, 1)
	manager := systemd.New(systemd.Config{
		Dirs:    []string{"/etc/systemd/system", "/run/systemd/system", unitDir},
		Journal: journal,
		Env:     map[string]string{"PATH": searchPath, "LANG": "C.UTF-8"},
		Shutdown: func(reboot bool) {
			if reboot {
				exit <- ExitReboot
				return
			}
			exit <- ExitOff
		},
	})
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	served := make(chan error, 1)
	go func() { served <- manager.Serve(serving, managerSocket) }()
	go serveSudo(serving, journal)
	b := &boot{manager: manager, journal: journal}
	go b.run(serving)
	select {
	case code := <-exit:
		return code
	case err := <-served:
		io.errorf("service manager: %v\n", err)
		return 1
	case <-ctx.Done():
		manager.Shutdown()
		return ExitOff
	}
}

// boot is what happens at a boot besides the manager itself.
type boot struct {
	manager *systemd.Manager
	journal *systemd.Journal
}

// done marks that cloud-init has run on this disk.
const done = "/var/lib/cloud/instance/boot-finished"

func (b *boot) run(ctx context.Context) {
	b.say("booting")
	finished := b.reserve()
	_, err := os.Stat(done)
	first := errors.Is(err, fs.ErrNotExist)
	if !first {
		finished() // cloud-init finds nothing to do
		b.manager.Boot(ctx)
		return
	}
	defer finished()
	b.manager.Boot(ctx) // what the image has enabled: nothing, or an SSH server
	if err := b.cloudInit(ctx); err != nil {
		b.say(fmt.Sprintf("failed: %v", err))
		return
	}
	b.say("finished")
}

// reserve lets units wait for cloud-init that are ordered after it.
func (b *boot) reserve() func() {
	var finish []func()
	for _, name := range []string{"cloud-init.service", "cloud-config.service", "cloud-final.service", "cloud-init.target"} {
		finish = append(finish, b.manager.Reserve(name))
	}
	return func() {
		for _, f := range finish {
			f()
		}
	}
}

func (b *boot) say(text string) { b.journal.Add("cloud-final.service", "cloud-init", 0, text) }

func (b *boot) cloudInit(ctx context.Context) error {
	data, err := metadata(ctx, "/latest/user-data")
	if err != nil {
		return err
	}
	config, err := cloudinit.Parse(data)
	if err != nil {
		return err
	}
	scripts, err := config.Write("/")
	if err != nil {
		return err
	}
	for _, script := range scripts {
		if err := b.script(ctx, script); err != nil {
			b.say(fmt.Sprintf("%s: %v", filepath.Base(script), err)) // cloud-init goes on, too
		}
	}
	if err := os.MkdirAll(filepath.Dir(done), 0o755); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o644)
}

// script runs a script of user_data; its output goes to the file that cloud-init
// has for it, and to the journal.
func (b *boot) script(ctx context.Context, path string) error {
	output, err := os.OpenFile("/var/log/cloud-init-output.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, path)
	command.Env = []string{"PATH=" + searchPath, "LANG=C.UTF-8"}
	command.Dir = "/"
	command.Stdout, command.Stderr = write, write
	err = command.Start()
	_ = write.Close()
	if err == nil {
		go func() {
			b.journal.Copy("cloud-final.service", "cloud-init", command.Process.Pid, &tee{from: read, to: output})
			_ = read.Close()
		}()
		err = command.Wait()
	}
	return err
}

// metadata asks the machine's metadata service as cloud-init does. What is not
// there is empty.
func metadata(ctx context.Context, path string) ([]byte, error) {
	const service = "http://169.254.169.254"
	status, token, err := get(ctx, http.MethodPut, service+"/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "300")
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("metadata token: %d, %w", status, err)
	}
	status, content, err := get(ctx, http.MethodGet, service+path, "X-aws-ec2-metadata-token", string(token))
	switch {
	case err != nil:
		return nil, fmt.Errorf("metadata %s: %w", path, err)
	case status == http.StatusNotFound:
		return nil, nil
	case status != http.StatusOK:
		return nil, fmt.Errorf("metadata %s: %d", path, status)
	}
	return content, nil
}

func systemctl(ctx context.Context, args []string, io stdio) int {
	code, err := systemd.Call(ctx, managerSocket, args, io.out, io.err)
	if err != nil {
		io.errorf("%v\n", err)
		return 1
	}
	return code
}

// theJournal is the machine's, for another process than the manager.
func theJournal() (*systemd.Journal, error) {
	console, err := os.OpenFile("/proc/1/fd/1", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return systemd.NewJournal(journalFile, nil)
	}
	return systemd.NewJournal(journalFile, console)
}

func journalctl(_ context.Context, args []string, io stdio) int {
	journal, err := systemd.NewJournal(journalFile, nil)
	if err != nil {
		io.errorf("%v\n", err)
		return 1
	}
	return journal.Journalctl(args, io.out, io.err)
}

// systemdCat copies its input, or a command's output, into the journal.
func systemdCat(ctx context.Context, args []string, io stdio) int {
	tag := "cat"
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		option, value, hasValue := strings.Cut(args[0], "=")
		args = args[1:]
		if !hasValue && len(args) > 0 && option != "--" {
			value, args = args[0], args[1:]
		}
		if option == "-t" || option == "--identifier" {
			tag = value
		}
		if option == "--" {
			break
		}
	}
	journal, err := theJournal()
	if err != nil {
		io.errorf("%v\n", err)
		return 1
	}
	if len(args) == 0 {
		journal.Copy("", tag, os.Getppid(), io.in)
		return 0
	}
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	read, write, err := os.Pipe()
	if err != nil {
		io.errorf("%v\n", err)
		return 1
	}
	command.Stdout, command.Stderr, command.Stdin = write, write, os.Stdin
	if err := command.Start(); err != nil {
		io.errorf("%v\n", err)
		return 1
	}
	_ = write.Close()
	journal.Copy("", tag, command.Process.Pid, read)
	if err := command.Wait(); err != nil {
		return max(command.ProcessState.ExitCode(), 1)
	}
	return 0
}

func logger(_ context.Context, args []string, io stdio) int {
	journal, err := theJournal()
	if err != nil {
		io.errorf("%v\n", err)
		return 1
	}
	tag, words := "root", []string{}
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-t", "--tag":
			if i++; i < len(args) {
				tag = args[i]
			}
		case "-p", "--priority":
			i++
		case "-s", "-i", "--":
		default:
			words = append(words, args[i])
		}
	}
	if len(words) == 0 {
		journal.Copy("", tag, 0, io.in)
		return 0
	}
	journal.Add("", tag, 0, strings.Join(words, " "))
	return 0
}

func cloudInit(_ context.Context, args []string, io stdio) int {
	state := "running"
	if _, err := os.Stat(done); err == nil {
		state = "done"
	}
	if len(args) > 0 && args[0] == "status" {
		io.printf("status: %s\n", state)
		return 0
	}
	io.errorf("cloud-init: the light machine knows only status\n")
	return 1
}
