package pidone

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// restTimeout bounds the killing of what is left: a process in
// uninterruptible sleep cannot be waited for.
const restTimeout = 10 * time.Second

// killRest kills all that descends from this process and reaps it.
func killRest() {
	for deadline := time.Now().Add(restTimeout); time.Now().Before(deadline); {
		// Once more after each round: a process may have forked while we looked.
		for _, pid := range descendants(os.Getpid()) {
			// It may have ended by itself.
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.ECHILD) {
			return
		}
		if pid == 0 {
			pause(10 * time.Millisecond)
		}
	}
}

func pause(d time.Duration) { <-time.After(d) }

// descendants lists the processes below root, from /proc.
func descendants(root int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, ok := parentOf(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	var found []int
	for next := children[root]; len(next) > 0; {
		pid := next[0]
		found = append(found, pid)
		next = append(next[1:], children[pid]...)
	}
	return found
}

// parentOf reads a process's parent; ok is false if it has ended.
func parentOf(pid int) (parent int, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// pid (name) state parent …; the name may hold anything, parentheses too.
	stat := string(data)
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, err == nil
}
