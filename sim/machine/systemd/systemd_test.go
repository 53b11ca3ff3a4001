package systemd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a manager with unit files in a directory.
type fixture struct {
	manager *Manager
	journal *Journal
	dir     string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	journal, err := NewJournal(filepath.Join(dir, "journal"), nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{dir: dir, journal: journal}
	f.manager = New(Config{
		Dirs: []string{filepath.Join(dir, "etc"), filepath.Join(dir, "vendor")}, Journal: journal,
		Env: map[string]string{"PATH": "/usr/bin:/bin", "DIR": dir},
	})
	t.Cleanup(f.manager.Shutdown)
	return f
}

func (f *fixture) write(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(f.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// systemctl calls the command and wants a code.
func (f *fixture) systemctl(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got := f.manager.Systemctl(ctx, args, &out, &out); got != code {
		t.Fatalf("systemctl %s: code %d, want %d: %s", strings.Join(args, " "), got, code, out.String())
	}
	return out.String()
}

func (f *fixture) log(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if code := f.journal.Journalctl(append(args, "-o", "cat"), &out, &out); code != 0 {
		t.Fatalf("journalctl: %d %s", code, out.String())
	}
	return out.String()
}

func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !happened() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestOneshot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(t, "one.env", "# comment\nWORD=\"from a file\"\n")
	f.write(t, "etc/one.service", `[Service]
Type=oneshot
Environment=FIRST=1 "SECOND=two words"
EnvironmentFile=-`+f.dir+`/missing.env
EnvironmentFile=`+f.dir+`/one.env
ExecStart=/bin/sh -c 'echo "$FIRST-$SECOND-$WORD"'
ExecStart=-/bin/false
ExecStart=/bin/echo ${FIRST}x $WORD \
  after
`)
	f.systemctl(t, 0, "start", "one")
	f.systemctl(t, 3, "is-active", "one")
	if got := f.log(t, "-u", "one"); !strings.Contains(got, "1-two words-from a file\n") || !strings.Contains(got, "\n1x from a file after\n") {
		t.Errorf("the journal is\n%s", got)
	}
}

func TestAFailedStartIsReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(t, "etc/bad.service", "[Unit]\nOnFailure=note.service\n[Service]\nType=oneshot\nExecStart=/bin/sh -c 'exit 7'\n")
	f.write(t, "etc/note.service", "[Service]\nType=oneshot\nExecStart=/bin/echo noted\n")
	f.systemctl(t, 1, "start", "bad")
	if got := f.systemctl(t, 0, "show", "-p", "Result,ExecMainStatus", "bad"); got != "Result=exit-code\nExecMainStatus=7\n" {
		t.Errorf("show prints %q", got)
	}
	f.systemctl(t, 0, "is-failed", "bad")
	until(t, "the unit of OnFailure ran", func() bool { return strings.Contains(f.log(t, "-u", "note"), "noted") })
	f.systemctl(t, 5, "start", "missing")
}

func TestRestartOnFailure(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	// It succeeds at the third time.
	f.write(t, "etc/again.service", `[Unit]
StartLimitIntervalSec=0
[Service]
Type=oneshot
Restart=on-failure
RestartSec=50ms
ExecStart=/bin/sh -c 'echo x >>$DIR/tries; test $(wc -l <$DIR/tries) -ge 3'
`)
	f.systemctl(t, 1, "start", "again")
	until(t, "it succeeded", func() bool { return f.manager.show("again.service").active == inactive })
	if got := f.manager.show("again.service").restarts; got != 2 {
		t.Errorf("%d restarts, want 2", got)
	}
}

func TestRestartPreventExitStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(t, "etc/final.service", "[Service]\nType=oneshot\nRestart=on-failure\nRestartSec=10ms\nRestartPreventExitStatus=3\nExecStart=/bin/sh -c 'exit 3'\n")
	f.systemctl(t, 1, "start", "final")
	until(t, "it failed", func() bool { return f.manager.show("final.service").active == failed })
	if got := f.manager.show("final.service").restarts; got != 0 {
		t.Errorf("%d restarts, want none", got)
	}
}

func TestTheStartLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(t, "etc/loop.service", "[Unit]\nStartLimitBurst=3\nStartLimitIntervalSec=1h\n[Service]\nRestart=always\nRestartSec=10ms\nExecStart=/bin/sh -c 'echo run'\n")
	f.systemctl(t, 0, "start", "--no-block", "loop")
	until(t, "the limit is hit", func() bool { return f.manager.show("loop.service").result == "start-limit-hit" })
	if got := strings.Count(f.log(t, "-u", "loop", "-t", "sh"), "run\n"); got != 3 {
		t.Errorf("it ran %d times, want 3", got)
	}
}

func TestALongRunningService(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(t, "etc/run.service", "[Service]\nRestart=always\nRestartSec=20ms\nExecStart=/bin/sh -c 'echo up; sleep 1000 & wait'\n[Install]\nWantedBy=multi-user.target\n")
	f.systemctl(t, 0, "enable", "--now", "run")
	f.systemctl(t, 0, "is-active", "run")
	f.systemctl(t, 0, "is-enabled", "run")
	until(t, "it is up", func() bool { return strings.Contains(f.log(t, "-t", "sh"), "up\n") })
	f.systemctl(t, 0, "restart", "run")
	until(t, "it is up again", func() bool { return strings.Count(f.log(t, "-t", "sh"), "up\n") == 2 })
	f.systemctl(t, 0, "stop", "run")
	f.systemctl(t, 3, "is-active", "run")
	f.systemctl(t, 0, "disable", "run")
	if got := f.systemctl(t, 1, "is-enabled", "run"); got != "disabled\n" {
		t.Errorf("is-enabled prints %q", got)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(t, "etc/once.service", "[Unit]\nConditionPathExists=!"+f.dir+"/done\n[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo ran; touch $DIR/done'\n")
	f.systemctl(t, 0, "start", "once")
	f.systemctl(t, 0, "start", "once")
	if got := strings.Count(f.log(t, "-u", "once"), "ran\n"); got != 1 {
		t.Errorf("it ran %d times, want once", got)
	}
}

func TestBootStartsWhatIsEnabledInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(t, "vendor/first.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'sleep 0.2; echo first'\n[Install]\nWantedBy=multi-user.target\n")
	f.write(t, "vendor/second.service", "[Unit]\nAfter=first.service\n[Service]\nType=oneshot\nExecStart=/bin/echo second\n[Install]\nWantedBy=multi-user.target\n")
	f.write(t, "vendor/other.service", "[Service]\nType=oneshot\nExecStart=/bin/echo other\n")
	f.systemctl(t, 0, "enable", "first", "second")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	f.manager.Boot(ctx)
	log := f.log(t)
	if first, second := strings.Index(log, "\nfirst\n"), strings.Index(log, "\nsecond\n"); first < 0 || second < first || strings.Contains(log, "other\n") {
		t.Errorf("the journal is\n%s", log)
	}
}

func TestDropInsAndReload(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(t, "vendor/unit.service", "[Service]\nType=oneshot\nExecStart=/bin/echo old\n")
	f.systemctl(t, 0, "start", "unit")
	f.write(t, "etc/unit.service.d/10.conf", "[Service]\nExecStart=\nExecStart=/bin/echo new\n")
	f.systemctl(t, 0, "start", "unit")
	if got := f.log(t, "-u", "unit"); strings.Contains(got, "new\n") {
		t.Errorf("a drop-in counts before daemon-reload:\n%s", got)
	}
	f.systemctl(t, 0, "daemon-reload")
	f.systemctl(t, 0, "start", "unit")
	if got := f.log(t, "-u", "unit"); !strings.Contains(got, "new\n") || strings.Count(got, "old\n") != 2 {
		t.Errorf("the journal is\n%s", got)
	}
}

func TestATimerStartsItsUnit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(t, "etc/tick.timer", "[Timer]\nOnBootSec=0\nOnUnitActiveSec=100ms\n[Install]\nWantedBy=timers.target\n")
	f.write(t, "etc/tick.service", "[Service]\nType=oneshot\nExecStart=/bin/echo tick\n")
	f.systemctl(t, 0, "enable", "--now", "tick.timer")
	until(t, "three ticks", func() bool { return strings.Count(f.log(t, "-u", "tick"), "tick\n") >= 3 })
	f.systemctl(t, 0, "stop", "tick.timer")
}

func TestTimersNextElapse(t *testing.T) {
	t.Parallel()
	boot := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return boot.Add(time.Duration(minutes) * time.Minute) }
	settings := map[string][]string{"Timer.OnBootSec": {"2min"}, "Timer.OnUnitActiveSec": {"5min"}}
	for _, test := range []struct {
		name                             string
		activated, triggered, unit, want time.Time
	}{
		{"first from the boot", at(0), time.Time{}, time.Time{}, at(2)},
		{"at once when that is past", at(10), time.Time{}, time.Time{}, at(2)},
		{"then from the unit's start", at(0), at(2), at(2), at(7)},
		{"also when the unit was started by hand", at(0), at(2), at(4), at(9)},
		{"and when its condition was not met", at(0), at(7), at(2), at(12)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			timer := timer{unit: &unit{settings: settings}, booted: boot, activated: test.activated, triggered: test.triggered}
			got, ok := timer.next(test.unit, time.Time{})
			if !ok || !got.Equal(test.want) {
				t.Errorf("next is %s, %t, want %s", got, ok, test.want)
			}
		})
	}
}

func TestAReservedUnitHoldsUpThoseAfterIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	done := f.manager.Reserve("cloud-final.service")
	f.write(t, "etc/late.service", "[Unit]\nAfter=cloud-final.service\n[Service]\nType=oneshot\nExecStart=/bin/echo late\n")
	f.systemctl(t, 0, "start", "--no-block", "late")
	until(t, "it is starting", func() bool { return f.manager.show("late.service").active == activating })
	if strings.Contains(f.log(t), "late\n") {
		t.Error("it ran too early")
	}
	done()
	until(t, "it ran", func() bool { return strings.Contains(f.log(t), "late\n") })
}

func TestSplitWords(t *testing.T) {
	t.Parallel()
	got, err := splitWords(`/bin/sh -c 'a "b"  c' "d e"f g\ h ""`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/bin/sh", "-c", `a "b"  c`, "d ef", "g h", ""}, got); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"20": 20 * time.Second, "5min 20s": 320 * time.Second, "1.5h": 90 * time.Minute, "infinity": 0} {
		if got, err := duration(text); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "5 parsecs"} {
		if got, err := duration(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func FuzzUnit(f *testing.F) {
	f.Add("[Service]\nExecStart=/bin/true \\\n # comment\n  x\nExecStart=\n")
	f.Add("[Unit]\nA=b\n\\\n=\n[")
	f.Fuzz(func(t *testing.T, text string) {
		u := &unit{name: "x.service", settings: map[string][]string{}}
		if u.parse(text) != nil {
			return
		}
		u.expand()
		for _, values := range u.settings {
			for _, value := range values {
				if strings.ContainsRune(value, '\n') {
					t.Errorf("a setting has several lines: %q", value)
				}
				if c, err := parseCommand(value); err == nil && len(c.expand(map[string]string{"X": "1"})) == 0 {
					t.Errorf("no words in %q", value)
				}
			}
		}
		_ = parseEnvironment(text)
	})
}
