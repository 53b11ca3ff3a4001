// Package proctree reads from /proc which processes there are, what they were
// started as, and which come from which.
package proctree

import (
	"os"
	"strconv"
	"strings"
)

// Below lists the processes below root, parents before their children.
func Below(root int) []int {
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
		if parent, ok := Parent(pid); ok {
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

// Arguments gives the command line of every process that has one, by process id.
func Arguments() map[int][]string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	found := map[int][]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil || len(line) == 0 { // it has ended, or is the kernel's own
			continue
		}
		found[pid] = strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	}
	return found
}

// Parent reads a process's parent; ok is false if it has ended.
func Parent(pid int) (parent int, ok bool) {
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
