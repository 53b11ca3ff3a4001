package joinfault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// machine is an instance with its disk.
type machine struct {
	world    *World
	id, ip   string
	index    int
	worker   bool
	root     string
	launched time.Duration
	skew     time.Duration // by which its clock is fast

	state   string // as EC2 has it
	on      bool
	since   time.Duration // when it was last switched on or off
	boots   int
	unit    *process // kubeopera-bootstrap
	waiting bool     // the unit is to start again
	gaveUp  bool     // the unit ended with code 3
	timer   bool     // kubeopera-refresh.timer is enabled
	doomed  bool     // will be terminated
}

// launch makes an instance and boots it.
func (w *World) launch(index int, worker bool) error {
	n := len(w.machines)
	m := &machine{
		world: w, id: instanceID(n), ip: fmt.Sprintf("10.0.0.%d", 10+n), index: index, worker: worker,
		launched: w.now, state: "running", skew: w.schedule.skew(n),
	}
	m.root = filepath.Join(w.config.Dir, fmt.Sprintf("m%d", n))
	endpoint := ""
	if w.schedule.ControlPlanes > 1 {
		endpoint = endpointName
	}
	for path, text := range map[string]string{
		"etc/fstab": "", "etc/hosts": "127.0.0.1 localhost\n",
		// The packages are in the image.
		"var/lib/kubeopera/packages":       "",
		"etc/kubeopera/bootstrap.override": "KUBEOPERA_ADDONS=\n" + fmt.Sprintf("RANDOM=%d\n", n+1) + w.schedule.Override,
		"etc/kubeopera/bootstrap.env": fmt.Sprintf(`KUBEOPERA_CLUSTER_NAME=%s
KUBEOPERA_CONTROL_PLANE_COUNT=%d
KUBEOPERA_KUBERNETES_VERSION=1.36.3
KUBEOPERA_PARAMETER_PREFIX=%s
KUBEOPERA_ROLE=%s
KUBEOPERA_INDEX=%d
KUBEOPERA_ENDPOINT_HOST=%s
KUBEOPERA_POD_CIDR=192.168.0.0/16
KUBEOPERA_SERVICE_CIDR=10.96.0.0/12
`, clusterName, w.schedule.ControlPlanes, strings.TrimSuffix(prefix, "/"), m.role(), index, endpoint),
	} {
		if err := m.write(path, text); err != nil {
			return err
		}
	}
	w.machines = append(w.machines, m)
	w.note(m.name(), "is launched as %s, %s", m.id, m.ip)
	// Machines take different times until their first boot is through.
	w.after(w.between(0, 90*time.Second), func() { m.boot() })
	return nil
}

func (m *machine) role() string {
	if m.worker {
		return "worker"
	}
	return "control-plane"
}

// name is what people call the machine: two with the same index differ by their id.
func (m *machine) name() string { return fmt.Sprintf("%s-%d (%s)", m.role(), m.index, m.id[14:]) }

// status is the name of the machine's status parameter.
func (m *machine) status() string {
	if m.worker {
		return "bootstrap_status/worker-" + m.id
	}
	return fmt.Sprintf("bootstrap_status/control-plane-%d", m.index)
}

// node is the machine's name in the cluster.
func (m *machine) node() string { return "ip-" + strings.ReplaceAll(m.ip, ".", "-") }

func (m *machine) log() string { return filepath.Join(m.root, "log") }

func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

func (m *machine) write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(m.path(name)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(m.path(name), []byte(text), 0o600)
}

// put is write where the disk is known to be there.
func (m *machine) put(name, text string) {
	if err := m.write(name, text); err != nil {
		m.world.violate("write %s of %s: %v", name, m.name(), err)
	}
}

func (m *machine) read(name string) string {
	text, err := os.ReadFile(m.path(name))
	if err != nil {
		return ""
	}
	return string(text)
}

func (m *machine) exists(name string) bool {
	_, err := os.Lstat(m.path(name))
	return err == nil
}

func (m *machine) remove(names ...string) {
	for _, name := range names {
		if err := os.RemoveAll(m.path(name)); err != nil {
			m.world.violate("remove %s of %s: %v", name, m.name(), err)
		}
	}
}

// boot switches the machine on. What runs at a boot runs: the kubelet, the unit,
// the timer.
func (m *machine) boot() {
	if m.on || m.state != "running" && m.state != "shutting-down" {
		return
	}
	m.on, m.since, m.gaveUp = true, m.world.now, false
	m.boots++
	m.remove("run")
	m.put("proc/sys/kernel/random/boot_id", fmt.Sprintf("%s-%d\n", m.id, m.boots))
	m.world.kubeletStarts(m)
	if m.timer {
		m.refreshLater(2 * time.Minute)
	}
	m.startUnit()
}

// startUnit is systemctl start kubeopera-bootstrap.
func (m *machine) startUnit() {
	if !m.on || m.unit != nil || m.bootstrapped() {
		return
	}
	m.waiting, m.gaveUp = false, false
	boot := m.boots
	m.unit = m.world.start(m, m.role()+".sh", func(code int) {
		m.unit = nil
		switch code {
		case 0:
		case 3:
			m.gaveUp = true
		default:
			m.restartLater(boot)
		}
	})
}

// restartLater is Restart=on-failure.
func (m *machine) restartLater(boot int) {
	m.waiting = true
	m.world.after(unitDelay, func() {
		if m.boots == boot && m.waiting {
			m.startUnit()
		}
	})
}

func (m *machine) bootstrapped() bool { return m.exists("var/lib/kubeopera/bootstrapped") }

// unitEnded says whether the unit has come to an end.
func (m *machine) unitEnded() bool {
	return m.unit == nil && !m.waiting && (m.bootstrapped() || m.gaveUp)
}

// refreshLater is the timer kubeopera-refresh.
func (m *machine) refreshLater(d time.Duration) {
	boot := m.boots
	m.world.after(d+m.world.between(0, time.Minute), func() {
		if !m.on || m.boots != boot {
			return
		}
		if !m.bootstrapped() {
			m.refreshLater(5 * time.Minute)
			return
		}
		m.world.start(m, "refresh.sh", func(int) { m.refreshLater(5 * time.Minute) })
	})
}

// crash cuts the power.
func (m *machine) crash(why string) {
	if !m.on {
		return
	}
	m.world.note(m.name(), "goes off: %s", why)
	m.on, m.since, m.waiting = false, m.world.now, false
	m.killAll("its machine is off")
	m.unit = nil
}

func (m *machine) killAll(why string) {
	for {
		var victim *process
		for _, p := range m.world.processes {
			if p.machine == m && (victim == nil || p.id < victim.id) {
				victim = p
			}
		}
		if victim == nil {
			return
		}
		m.world.kill(victim, why)
	}
}

// --- programs of the machine ---------------------------------------------------

func (c *call) systemctl() {
	if c.has("enable") && c.has("kubeopera-refresh.timer") && !c.machine.timer {
		c.machine.timer = true
		c.machine.refreshLater(2 * time.Minute)
	}
}

func (c *call) sleep() {
	d, err := time.ParseDuration(c.args[1] + "s")
	if err != nil {
		c.fail(1, "sleep: invalid time interval %q", c.args[1])
	}
	c.wait(d)
}

func (c *call) date() {
	t := c.world.time().Add(c.machine.skew)
	switch strings.Join(c.args[1:], " ") {
	case "+%s":
		c.print("%d\n", t.Unix())
	case "-u +%FT%TZ":
		c.print("%s\n", t.Format("2006-01-02T15:04:05Z"))
	default:
		c.fail(1, "date: %q", c.args[1:])
	}
}

// metadata is curl, for the machine's metadata.
func (c *call) metadata() {
	url := c.args[len(c.args)-1]
	answers := map[string]string{
		"/latest/api/token": "token", "/latest/meta-data/instance-id": c.machine.id, "/latest/meta-data/local-ipv4": c.machine.ip,
		"/latest/meta-data/local-hostname":              c.machine.node() + ".eu-west-1.compute.internal",
		"/latest/meta-data/placement/availability-zone": region + "a", "/latest/meta-data/placement/region": region,
	}
	answer, ok := answers[strings.TrimPrefix(url, "http://169.254.169.254")]
	if !ok {
		c.fail(22, "curl: no %s", url)
	}
	c.print("%s", answer)
}

// say is the end of the machine's log.
func (m *machine) say(lines int) string {
	all := strings.Split(strings.TrimSpace(m.read("log")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
