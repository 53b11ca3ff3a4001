package crash

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
)

// TestDiskFull: SQLite cannot write, and can again.
func TestDiskFull(t *testing.T) {
	rare(t, true)
	dir := t.TempDir()
	// The tests have mounts of their own.
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=400k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	platform.Reconfigure(t, map[string]string{"DATABASE_URL": "sqlite://" + filepath.Join(dir, "database.db")})
	r := request("disk-full", 5)
	run := platform.Start(t, r)
	platform.Reaches(t, run.ID, api.PhaseApply)
	filler := filepath.Join(dir, "filler")
	file, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	_, full := io.Copy(file, endless{})
	if err := file.Close(); err != nil || !errors.Is(full, syscall.ENOSPC) {
		t.Fatal(full, err)
	}
	harness.Until(t, "the service is not ready", func() (bool, error) {
		status, err := ready(t)
		return status == http.StatusServiceUnavailable, err
	})
	_, err = platform.Provisioner(t).CancelProvision(t.Context(), run.ID, false)
	harness.WantProblem(t, err, http.StatusServiceUnavailable, "database_unavailable")

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "the service is ready again", func() (bool, error) {
		status, err := ready(t)
		return status == http.StatusOK, err
	})
	wantEnd(t, platform.Wait(t, run.ID, nil), api.StatusSucceeded)
	checkOneRun(t, r.Name, run.ID)
}

// endless is zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// ready is the status of the service's readiness.
func ready(t *testing.T) (status int, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, platform.ClusterProvisioner.URL()+"/ready", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
