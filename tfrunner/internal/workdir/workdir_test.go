package workdir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// volume lays files out as the kubelet does for a ConfigMap.
func volume(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		write(t, filepath.Join(dir, "..2026_11_30", name), content)
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..2026_11_30", filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			t.Errorf("%s is no file", e.Name())
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[e.Name()] = string(data)
	}
	return got
}

func TestCreate_copies_a_ConfigMap_volume(t *testing.T) {
	t.Parallel()
	source := volume(t, map[string]string{"main.tf": "# main", "backend.tf": "# backend", "run.json": "{}"})
	lock := filepath.Join(t.TempDir(), "lock")
	write(t, lock, "# lock")
	dir := filepath.Join(t.TempDir(), "run", "acme")
	write(t, filepath.Join(dir, "old.tf"), "# from before")

	if err := Create(dir, source, lock); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"main.tf": "# main", "backend.tf": "# backend", ".terraform.lock.hcl": "# lock"}
	if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v", info.Mode())
	}
}

func TestCreate_without_lock_file(t *testing.T) {
	t.Parallel()
	source := volume(t, map[string]string{"main.tf": "# main"})
	dir := filepath.Join(t.TempDir(), "acme")
	if err := Create(dir, source, filepath.Join(dir, "missing")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"main.tf": "# main"}, contents(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestCreate_refuses_an_empty_environment(t *testing.T) {
	t.Parallel()
	if err := Create(filepath.Join(t.TempDir(), "acme"), volume(t, map[string]string{"run.json": "{}"}), ""); err == nil {
		t.Error("no error")
	}
}
