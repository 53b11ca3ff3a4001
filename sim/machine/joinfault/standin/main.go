// Command standin is every program of a machine that joinfault does not run for
// real: it is called by the program's name, asks the World what that program does,
// and does it. It is small, since a schedule calls it thousands of times.
package main

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	args := append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...)
	if args[0] == "flock" {
		os.Exit(flock(args[1:]))
	}
	os.Exit(ask(args...))
}

// lost is what a program that is killed would leave; nobody sees it.
const lost = 137

// ask lets the World answer.
func ask(args ...string) int {
	environment := map[string]string{}
	for _, pair := range os.Environ() {
		key, value, _ := strings.Cut(pair, "=")
		environment[key] = value
	}
	connection, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: environment["JOINFAULT_SOCKET"], Net: "unix"})
	if err != nil {
		return lost
	}
	request := strings.Join(append([]string{environment["JOINFAULT_RUN"]}, args...), "\x00")
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(request))) //nolint:gosec // an argument list has less than 4 GB
	if _, err := connection.Write(append(frame, request...)); err != nil {
		return lost
	}
	answer, err := io.ReadAll(connection)
	if err != nil || len(answer) < 5 {
		return lost
	}
	length := binary.BigEndian.Uint32(answer[1:])
	_, _ = os.Stdout.Write(answer[5 : 5+length])
	_, _ = os.Stderr.Write(answer[5+length:])
	return int(answer[0])
}

// flock is "flock -n <descriptor>" and "flock -w <seconds> <descriptor>". The lock
// is a real one; only the waiting is done in the World's time.
func flock(args []string) int {
	descriptor, err := strconv.Atoi(args[len(args)-1])
	if err != nil {
		return 64
	}
	left := 0
	if args[0] == "-w" {
		if left, err = strconv.Atoi(args[1]); err != nil {
			return 64
		}
	}
	for ; ; left-- {
		if syscall.Flock(descriptor, syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return 0
		}
		if left <= 0 {
			return 1
		}
		if code := ask("sleep", "1"); code != 0 {
			return code
		}
	}
}
