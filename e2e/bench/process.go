package bench

import (
	"fmt"
	"strconv"
	"strings"
)

// Memory is what a process has of this machine's memory, in MB of 10^6 bytes: now,
// and at most so far (proc_pid_status(5)).
func Memory(pid int) (now, most float64, err error) {
	file := fmt.Sprintf("/proc/%d/status", pid)
	for name, value := range map[string]*float64{"VmRSS": &now, "VmHWM": &most} {
		kilobytes, err := strconv.Atoi(strings.TrimSuffix(field(file, name), " kB"))
		if err != nil {
			return 0, 0, fmt.Errorf("read %s of process %d: %w", name, pid, err)
		}
		*value = float64(kilobytes) * 1024 / 1e6
	}
	return now, most, nil
}
