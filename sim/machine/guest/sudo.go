package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kubeopera/platform/sim/machine/systemd"
)

// sudoSocket is in the machine's network namespace, not in a directory that
// others on this machine could reach. A program with the set-user-ID bit, which
// the real sudo is, would be a door to this machine's root.
const sudoSocket = "@machine-sudo"

// sudoCall is what sudo asks the machine's manager to run; the descriptors 0 to 2
// come with it.
type sudoCall struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	User string   `json:"user"` // as whom
}

// sudoEvent goes back and forth after that: signals to the command, its end.
type sudoEvent struct {
	Signal int    `json:"signal,omitempty"`
	Ended  bool   `json:"ended,omitempty"`
	Code   int    `json:"code,omitempty"`
	Error  string `json:"error,omitempty"`
}

// sudo runs a command as root for whom a file in /etc/sudoers.d lets do so without
// a password. It is the manager that runs it, in a session of its own.
func sudo(ctx context.Context, args []string, io stdio) int {
	call, check, err := parseSudo(args)
	if err != nil {
		io.errorf("sudo: %v\n", err)
		return 1
	}
	if os.Geteuid() == 0 {
		return sudoAsRoot(call, check, io)
	}
	if call.Dir, err = os.Getwd(); err != nil {
		call.Dir = "/"
	}
	code, err := call.ask(ctx)
	if err != nil {
		io.errorf("sudo: %v\n", err)
		return 1
	}
	return code
}

// sudoAsRoot needs nobody's help.
func sudoAsRoot(call sudoCall, check bool, io stdio) int {
	if check {
		return 0
	}
	path, err := findCommand(call.Args[0])
	if err != nil {
		io.errorf("sudo: %s: command not found\n", call.Args[0])
		return 1
	}
	io.errorf("sudo: %v\n", syscall.Exec(path, call.Args, call.Env))
	return 1
}

func parseSudo(args []string) (call sudoCall, check bool, err error) {
	call.User = "root"
	keep, login := false, false
	var set []string
options:
	for len(args) > 0 {
		arg := args[0]
		switch {
		case arg == "--":
			args = args[1:]
			break options
		case arg == "-u" || arg == "--user":
			if len(args) < 2 {
				return call, false, errors.New("option requires an argument -- 'u'")
			}
			call.User, args = args[1], args[2:]
			continue
		case arg == "-E" || arg == "--preserve-env":
			keep = true
		case arg == "-i" || arg == "-s":
			login = true
		case arg == "-v" || arg == "-l" || arg == "--validate" || arg == "--list":
			check = true
		case slices.Contains([]string{"-n", "-H", "-S", "-k", "-b", "--non-interactive", "--set-home", "--stdin"}, arg):
		case strings.HasPrefix(arg, "-"):
			return call, false, fmt.Errorf("the light machine does not have the option %s", arg)
		case strings.Contains(arg, "="):
			set = append(set, arg)
		default:
			break options
		}
		args = args[1:]
	}
	call.Args = args
	if login {
		call.Args = []string{"/bin/bash"}
		if len(args) > 0 {
			call.Args = append(call.Args, "-c", strings.Join(args, " "))
		}
	}
	if check {
		call.Args = []string{"true"}
	}
	if len(call.Args) == 0 {
		return call, false, errors.New("usage: sudo [-nEH] [-u user] [VAR=value] command")
	}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		replaced := slices.Contains([]string{"PATH", "HOME", "USER", "LOGNAME", "MAIL", "SHELL"}, name)
		if !replaced && (keep || slices.Contains([]string{"TERM", "LANG", "DISPLAY", "TZ"}, name)) {
			call.Env = append(call.Env, entry)
		}
	}
	home := "/home/" + call.User
	if call.User == "root" {
		home = "/root"
	}
	call.Env = append(call.Env, "PATH="+searchPath, "HOME="+home, "USER="+call.User, "LOGNAME="+call.User, "SHELL=/bin/bash",
		"SUDO_UID="+strconv.Itoa(os.Getuid()), "SUDO_GID="+strconv.Itoa(os.Getgid()), "SUDO_COMMAND="+strings.Join(call.Args, " "))
	call.Env = append(call.Env, set...)
	return call, check, nil
}

// ask has the command run and passes signals on to it.
func (c sudoCall) ask(ctx context.Context) (int, error) {
	connection, err := new(net.Dialer).DialContext(ctx, "unix", sudoSocket)
	if err != nil {
		return 0, err
	}
	defer func() { _ = connection.Close() }()
	unixConn, ok := connection.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("unexpected connection %T", connection)
	}
	if _, _, err := unixConn.WriteMsgUnix([]byte{0}, unix.UnixRights(0, 1, 2), nil); err != nil {
		return 0, err
	}
	encoder := json.NewEncoder(connection)
	if err := encoder.Encode(c); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range signals {
			if number, ok := s.(syscall.Signal); ok {
				_ = encoder.Encode(sudoEvent{Signal: int(number)}) // the answer tells whether it was of use
			}
		}
	}()
	var event sudoEvent
	if err := json.NewDecoder(connection).Decode(&event); err != nil {
		return 0, fmt.Errorf("the command's end is not known: %w", err)
	}
	if event.Error != "" {
		return 0, errors.New(event.Error)
	}
	return event.Code, nil
}

// serveSudo runs commands for sudo until ctx ends.
func serveSudo(ctx context.Context, journal *systemd.Journal) {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", sudoSocket)
	if err != nil {
		journal.Add("", "sudo", 1, err.Error())
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = connection.Close() }()
			if unixConn, ok := connection.(*net.UnixConn); ok {
				serveSudoCall(unixConn)
			}
		}()
	}
}

func serveSudoCall(connection *net.UnixConn) {
	encoder, decoder := json.NewEncoder(connection), json.NewDecoder(connection)
	refuse := func(err error) { _ = encoder.Encode(sudoEvent{Ended: true, Error: err.Error()}) }
	files, err := receiveFiles(connection)
	defer func() {
		for _, file := range files {
			_ = file.Close()
		}
	}()
	if err != nil {
		refuse(err)
		return
	}
	var call sudoCall
	if err := decoder.Decode(&call); err != nil || len(call.Args) == 0 || len(files) != 3 {
		refuse(fmt.Errorf("no call that makes sense: %w", err))
		return
	}
	caller, err := callerOf(connection)
	if err != nil {
		refuse(err)
		return
	}
	if !maySudo(caller) {
		refuse(errors.New("a password is required"))
		return
	}
	command, err := call.command(caller)
	if err != nil {
		refuse(err)
		return
	}
	command.Stdin, command.Stdout, command.Stderr = files[0], files[1], files[2]
	if err := command.Start(); err != nil {
		refuse(err)
		return
	}
	for _, file := range files { // the command alone is to hold them
		_ = file.Close()
	}
	go func() {
		for {
			var event sudoEvent
			if err := decoder.Decode(&event); err != nil {
				return // sudo is gone; its command goes on
			}
			_ = command.Process.Signal(syscall.Signal(event.Signal))
		}
	}()
	code := 0
	if err := command.Wait(); err != nil {
		code = command.ProcessState.ExitCode()
		if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = 128 + int(status.Signal())
		}
	}
	_ = encoder.Encode(sudoEvent{Ended: true, Code: code}) // who is gone does not read it
}

// command is what to run, as whom.
func (c sudoCall) command(caller string) (*exec.Cmd, error) {
	account, ok := accountOf(func(fields []string) bool { return fields[0] == c.User })
	if !ok {
		return nil, fmt.Errorf("unknown user %s", c.User)
	}
	path, err := findCommand(c.Args[0])
	if err != nil {
		return nil, fmt.Errorf("%s: command not found", c.Args[0])
	}
	env := append(slices.Clone(c.Env), "SUDO_USER="+caller)
	command := &exec.Cmd{Path: path, Args: c.Args, Env: env, Dir: c.Dir, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if account.uid != 0 {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: account.uid, Gid: account.gid}
	}
	return command, nil
}

// findCommand finds a command as sudo does, in its own path.
func findCommand(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(searchPath) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

func receiveFiles(connection *net.UnixConn) ([]*os.File, error) {
	space := make([]byte, unix.CmsgSpace(3*4))
	_, n, _, _, err := connection.ReadMsgUnix(make([]byte, 1), space)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(space[:n])
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, message := range messages {
		descriptors, err := unix.ParseUnixRights(&message)
		if err != nil {
			return files, err
		}
		for _, descriptor := range descriptors {
			files = append(files, os.NewFile(uintptr(descriptor), "sudo"))
		}
	}
	return files, nil
}

// callerOf is the name of who is at the other end, as the kernel knows it.
func callerOf(connection *net.UnixConn) (string, error) {
	raw, err := connection.SyscallConn()
	if err != nil {
		return "", err
	}
	var credentials *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		credentials, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return "", err
	}
	if failed != nil {
		return "", failed
	}
	account, ok := accountOf(func(fields []string) bool { return fields[2] == strconv.Itoa(int(credentials.Uid)) })
	if !ok {
		return "", fmt.Errorf("you do not exist in the passwd database (uid %d)", credentials.Uid)
	}
	return account.name, nil
}

type account struct {
	name     string
	uid, gid uint32
}

// accountOf finds an account by the fields of its line in /etc/passwd.
func accountOf(matches func(fields []string) bool) (account, bool) {
	content, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return account{}, false
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 4 || !matches(fields) {
			continue
		}
		uid, uidErr := strconv.ParseUint(fields[2], 10, 32)
		gid, gidErr := strconv.ParseUint(fields[3], 10, 32)
		return account{name: fields[0], uid: uint32(uid), gid: uint32(gid)}, errors.Join(uidErr, gidErr) == nil
	}
	return account{}, false
}

// maySudo looks for the one rule that it knows.
func maySudo(name string) bool {
	if name == "root" {
		return true
	}
	paths, err := filepath.Glob("/etc/sudoers.d/*")
	if err != nil {
		return false // the pattern is right
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err == nil && slices.Contains(strings.Split(string(content), "\n"), name+" ALL=(ALL) NOPASSWD:ALL") {
			return true
		}
	}
	return false
}
