package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClaimKeepsOtherSimulatorsOut(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), ".sim")
	first, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(dir, "aws", "state")
	if err := os.MkdirAll(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(dir); err == nil || !strings.Contains(err.Error(), "another simulator has "+dir) {
		t.Errorf("a second claim: %v, want that another simulator has the folder", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the second claim removed what the first one's simulator had: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := claim(dir)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("a claimed folder holds %v, %v", entries, err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}
