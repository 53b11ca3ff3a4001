package web

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	w.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))
	return recorder.Code, recorder.Body.Bytes()
}

func TestFilesHaveTheSumsOfTheSettings(t *testing.T) {
	t.Parallel()
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{
		"CALICO_CRDS_SHA256":     "https://raw.githubusercontent.com/projectcalico/calico/v3.32.1/manifests/operator-crds.yaml",
		"CALICO_OPERATOR_SHA256": "https://raw.githubusercontent.com/projectcalico/calico/v3.32.1/manifests/tigera-operator.yaml",
	} {
		if code, content := get(t, url); code != http.StatusOK || sum(content) != w.Settings()[name] {
			t.Errorf("%s: %d, sum %s, want %s", url, code, sum(content), w.Settings()[name])
		}
	}
	code, content := get(t, "https://codeload.github.com/kubernetes-sigs/aws-ebs-csi-driver/tar.gz/0123")
	if code != http.StatusOK {
		t.Fatalf("archive: %d", code)
	}
	if got := sumOfArchive(t, content); got != w.Settings()["EBS_CSI_SHA256"] {
		t.Errorf("the archive's files have the sum %s, want %s", got, w.Settings()["EBS_CSI_SHA256"])
	}
}

// sumOfArchive is the sum of what sha256sum prints for the archive's manifests.
func sumOfArchive(t *testing.T, content []byte) string {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		file, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(file, new(any)); err != nil {
			t.Errorf("%s: %v", header.Name, err)
		}
		lines = append(lines, sum(file)+"  "+path.Base(header.Name)+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return sum([]byte(strings.Join(lines, "")))
}

func TestAllElseIsNotThere(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"https://example.com/", "https://pkgs.k8s.io/", "https://raw.githubusercontent.com/somebody/else/main/x.yaml"} {
		if code, _ := get(t, url); code != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", url, code)
		}
	}
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := w.Lookup("example.com"); ok {
		t.Error("example.com has an address")
	}
}
