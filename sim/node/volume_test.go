package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWriteVolumeHasTheKubeletsLayout(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "volume")
	if err := writeVolume(path, map[string]file{
		"main.tf":     {content: []byte("module"), mode: 0o644},
		"deep/secret": {content: []byte("value"), mode: 0o400},
	}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(path, entry.Name()))
		if err != nil {
			target = "(directory)"
		}
		name := entry.Name()
		if strings.HasPrefix(name, "..2") {
			name = "(time)"
		}
		if strings.HasPrefix(target, "..2") {
			target = "(time)"
		}
		got[name] = target
	}
	want := map[string]string{"(time)": "(directory)", "..data": "(time)", "main.tf": "..data/main.tf", "deep": "..data/deep"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("volume (-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(path, "deep", "secret"))
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("mode is %v (%v), want 0400", info, err)
	}
}

func TestWriteVolumeRefusesPathsThatLeaveIt(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"../outside", "/absolute", "a/../../b"} {
		if err := writeVolume(filepath.Join(t.TempDir(), "volume"), map[string]file{name: {}}); err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

func TestTailOfFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "message")
	if got := tailOfFile(path, 10); got != "" {
		t.Errorf("a missing file gave %q", got)
	}
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int64]string{4: "6789", 10: "0123456789", 20: "0123456789"} {
		if got := tailOfFile(path, size); got != want {
			t.Errorf("the last %d bytes are %q, want %q", size, got, want)
		}
	}
}
