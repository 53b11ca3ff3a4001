package proctree_test

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/runner/proctree"
)

func TestBelow_finds_grandchildren_after_their_parents(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 60 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	found := proctree.Below(os.Getpid())
	if i, j := slices.Index(found, cmd.Process.Pid), slices.Index(found, grandchild); i < 0 || j < i {
		t.Errorf("child %d, grandchild %d in %v", cmd.Process.Pid, grandchild, found)
	}
	if slices.Contains(found, os.Getpid()) {
		t.Error("the root itself is in the list")
	}
	for _, pid := range []int{grandchild, cmd.Process.Pid} {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // it may have ended
		}
	}
	_ = cmd.Wait() // it was killed
}

func TestArguments_has_this_process_as_it_was_started(t *testing.T) {
	t.Parallel()
	if got := proctree.Arguments()[os.Getpid()]; !slices.Equal(got, os.Args) {
		t.Errorf("this process was started as %q, want %q", got, os.Args)
	}
}
