package progress_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var begin = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// at is a run as it is so many seconds after its begin.
func at(seconds int, status api.Status, phase api.Phase, change func(*progress.Run)) progress.Run {
	run := progress.Run{
		ID: "019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11", Title: "apply acme-prod", About: []string{"vanilla_kubeadm", "eu-west-1"}, Unit: "resources",
		RunStatus: api.RunStatus{Status: status, Phase: phase, CreatedAt: begin, UpdatedAt: begin.Add(time.Duration(seconds) * time.Second)},
	}
	if change != nil {
		change(&run)
	}
	return run
}

// course is a run from its begin to its end, of either kind.
func course(end api.Status) []progress.Run {
	nodes := func(states ...api.NodeState) []api.Node {
		var nodes []api.Node
		for i, s := range states {
			nodes = append(nodes, api.Node{Name: fmt.Sprintf("control-plane-%d", i), State: s, Message: map[api.NodeState]string{api.NodeJoining: "kubeadm join", api.NodeFailed: "kubeadm join: etcd is not healthy"}[s]})
		}
		return nodes
	}
	last := map[api.Status]func(p *progress.Run){
		api.StatusSucceeded: func(p *progress.Run) {
			p.Message, p.Nodes = "applied: 84 added, 0 changed, 0 removed; 3 of 3 control-plane nodes joined", nodes(api.NodeJoined, api.NodeJoined, api.NodeJoined)
		},
		api.StatusFailed: func(p *progress.Run) {
			p.Message, p.ErrorCode = "control-plane-1: kubeadm join: etcd is not healthy\x1b[2J\nmore", "control_plane_incomplete"
			p.Nodes = nodes(api.NodeJoined, api.NodeFailed, api.NodeWaiting)
		},
		api.StatusCancelled: func(p *progress.Run) { p.Message = "cancelled by ops" },
	}
	finished := begin.Add(400 * time.Second)
	return []progress.Run{
		at(0, api.StatusQueued, api.PhaseWaitingForSlot, func(p *progress.Run) { p.QueuePosition = 2 }),
		at(30, api.StatusRunning, api.PhaseStarting, nil),
		at(33, api.StatusRunning, api.PhaseInit, nil),
		at(45, api.StatusRunning, api.PhaseApply, func(p *progress.Run) {
			p.Progress = &api.Progress{Done: 41, Total: 85, Current: `module.compute.aws_instance.control_plane["0"]`}
			p.Message = "applying"
		}),
		at(245, api.StatusRunning, api.PhaseWaitingForControlPlane, func(p *progress.Run) {
			p.Progress = &api.Progress{Done: 85, Total: 85}
			p.Nodes = nodes(api.NodeJoined, api.NodeJoining, api.NodeWaiting)
			p.Message = "control-plane-1: kubeadm join (1 of 3 control-plane nodes joined)"
		}),
		at(400, end, api.PhaseDone, func(p *progress.Run) { p.FinishedAt = &finished; last[end](p) }),
	}
}

func TestFrame(t *testing.T) {
	t.Parallel()
	wide := terminal.Screen{Width: 100, Height: 40, Unicode: true}
	tests := []struct {
		name   string
		end    api.Status
		states int
		screen terminal.Screen
	}{
		{"queued", api.StatusSucceeded, 1, wide},
		{"apply", api.StatusSucceeded, 4, wide},
		{"nodes", api.StatusSucceeded, 5, wide},
		{"nodes-colour", api.StatusSucceeded, 5, terminal.Screen{Width: 100, Height: 40, Unicode: true, Colour: true}},
		{"nodes-ascii", api.StatusSucceeded, 5, terminal.Screen{Width: 100, Height: 40}},
		{"nodes-narrow", api.StatusSucceeded, 5, terminal.Screen{Width: 40, Height: 40, Unicode: true}},
		{"nodes-low", api.StatusSucceeded, 5, terminal.Screen{Width: 100, Height: 8, Unicode: true}},
		{"size-unknown", api.StatusSucceeded, 5, terminal.Screen{}},
		{"succeeded", api.StatusSucceeded, 6, wide},
		{"failed", api.StatusFailed, 6, wide},
		{"cancelled", api.StatusCancelled, 6, wide},
		{"scaffold", api.StatusSucceeded, 6, wide},
		{"scaffold-low", api.StatusSucceeded, 6, terminal.Screen{Width: 100, Height: 7, Unicode: true}},
		{"reset", api.StatusSucceeded, 6, wide},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var h progress.History
			for _, run := range course(tt.end)[:tt.states] {
				switch {
				case strings.HasPrefix(tt.name, "scaffold"):
					run.Title, run.Nodes, run.Progress, run.Made = "scaffold acme-prod", nil, nil, []progress.Fact{{Name: "Infrastructure commit", Value: "3f2a91c0"}, {Name: "Path", Value: "clusters/acme\x1b[2J"}}
				case tt.name == "reset":
					run.Title = "destroy acme-prod"
					for i := range run.Nodes {
						run.Nodes[i].State, run.Nodes[i].Message = api.NodeReset, ""
					}
				}
				h.Add(run)
			}
			lines := progress.Frame(h, h.Run.UpdatedAt.Add(75*time.Second), tt.screen, 1)
			for _, line := range lines {
				if tt.screen.Width > 0 && !tt.screen.Colour && terminal.Columns(line) >= tt.screen.Width {
					t.Errorf("%d columns: %q", terminal.Columns(line), line)
				}
			}
			if tt.screen.Height > 0 && len(lines) >= tt.screen.Height {
				t.Errorf("%d lines on a screen of %d", len(lines), tt.screen.Height)
			}
			golden.Equal(t, "frames/"+tt.name+".txt", []byte(strings.ReplaceAll(strings.Join(lines, "\n"), "\x1b", `\e`)+"\n"))
		})
	}
}

func FuzzFrameFits(f *testing.F) {
	f.Add("module.vpc.aws_vpc.this", "applying", "control-plane-0", 3, 4, 80, 24)
	f.Add("\x1b[2J", "全角文字列\r\n", "e\u0301", -1, 0, 10, 5)
	f.Fuzz(func(t *testing.T, current, message, node string, done, total, width, height int) {
		if width < 2 || width > 500 || height < 6 || height > 500 {
			return
		}
		var h progress.History
		h.Add(at(0, api.StatusRunning, api.PhaseInit, nil))
		h.Add(at(0, api.StatusRunning, api.Phase(message), func(p *progress.Run) {
			p.Message, p.Progress = message, &api.Progress{Done: done, Total: total, Current: current}
			p.Made = []progress.Fact{{Name: node, Value: current}, {Name: message, Value: node}}
			for range 9 {
				p.Nodes = append(p.Nodes, api.Node{Name: node, State: api.NodeState(current), Message: message})
			}
		}))
		lines := progress.Frame(h, begin, terminal.Screen{Width: width, Height: height}, 0)
		if len(lines) >= height {
			t.Errorf("%d lines on a screen of %d", len(lines), height)
		}
		for _, line := range lines {
			if terminal.Columns(line) >= width || line != terminal.Clean(line) {
				t.Errorf("width %d: %q", width, line)
			}
		}
	})
}

func TestHistoryOfARunThatHasBeenGoing(t *testing.T) {
	t.Parallel()
	var h progress.History
	h.Seed([]api.Event{
		{At: begin, Status: api.StatusQueued, Phase: api.PhaseWaitingForSlot},
		{At: begin.Add(3 * time.Second), Status: api.StatusRunning, Phase: api.PhaseStarting},
		{At: begin.Add(5 * time.Second), Status: api.StatusRunning, Phase: api.PhaseApply},
	})
	h.Add(at(60, api.StatusRunning, api.PhaseApply, nil))
	h.Add(at(70, api.StatusCancelling, api.PhaseApply, nil))
	h.Add(at(80, api.StatusCancelled, api.PhaseDone, nil))
	var got []string
	for _, s := range h.Steps {
		got = append(got, fmt.Sprintf("%s %s-%s", s.Name, s.Began.Sub(begin), s.Ended.Sub(begin)))
	}
	want := []string{"waiting for slot 0s-3s", "starting 3s-5s", "apply 5s-1m10s", "cancelling 1m10s-1m20s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Minute: "0s", 1500 * time.Millisecond: "1s", 59 * time.Second: "59s", 65 * time.Second: "1m05s", 59*time.Minute + 59*time.Second: "59m59s",
		time.Hour: "1h00m", 47*time.Hour + 59*time.Minute: "47h59m", 48 * time.Hour: "2d",
	} {
		if got := progress.Duration(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

// TestLines counts: what is worth a line comes at once, counts and words every ten
// seconds.
func TestLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		errEnd := errors.New("the end")
		err := progress.NewLines(&out).Run(func(show func(progress.Run)) error {
			start := time.Now()
			moment := func(run progress.Run) {
				run.CreatedAt = start
				show(run)
				time.Sleep(time.Second) //nolint:forbidigo // in a bubble
			}
			runs := course(api.StatusFailed)
			runs[5].FinishedAt = new(start.Add(400 * time.Second))
			for _, run := range runs[:4] {
				moment(run)
			}
			for done := 42; done <= 65; done++ {
				run := runs[3]
				run.Progress = &api.Progress{Done: done, Total: 85, Current: "a"}
				moment(run)
			}
			moment(runs[4])
			moment(runs[4])
			moment(runs[5])
			return errEnd
		})
		if !errors.Is(err, errEnd) {
			t.Errorf("got %v", err)
		}
		golden.Equal(t, "lines.txt", []byte(out.String()))
	})
}

// window is a terminal whose size changes.
type window struct {
	mu    sync.Mutex
	out   strings.Builder
	width int
}

func (w *window) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *window) screen() terminal.Screen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return terminal.Screen{Width: w.width, Height: 20}
}

// take gives what was written, and makes the window as wide as that.
func (w *window) take(width int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.out.Reset()
	w.width = width
	return w.out.String()
}

func TestLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &window{width: 60}
		run := at(0, api.StatusRunning, api.PhaseApply, nil)
		err := progress.NewLive(w, w.screen).Run(func(show func(progress.Run)) error {
			time.Sleep(1100 * time.Millisecond) //nolint:forbidigo // in a bubble
			if text := w.take(60); text != "" {
				t.Errorf("drew before there was anything: %q", text)
			}
			show(run)
			time.Sleep(time.Second) //nolint:forbidigo // in a bubble
			text := w.take(30)      // what is there wraps now: the first line takes two rows
			// Four more pictures, each over the three lines of the one before.
			if n := strings.Count(text, "\x1b[3A\r\x1b[J"); n != 4 {
				t.Errorf("%d pictures over others, want 4:\n%q", n, text)
			}
			show(run)
			if text := w.take(30); !strings.HasPrefix(text, "\x1b[4A\r\x1b[J") {
				t.Errorf("after the window became narrower: %.20q", text)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
