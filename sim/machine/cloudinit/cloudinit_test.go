package cloudinit_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/sim/machine/cloudinit"
)

func compressed(tb testing.TB, text string) []byte {
	tb.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

const cloudConfig = `#cloud-config
write_files:
  - path: /etc/one.env
    permissions: "0600"
    owner: root:root
    content: |
      A=1
  - path: /usr/local/bin/two
    permissions: 0755
    encoding: b64
    content: IyEvYmluL3NoCg==
  - {path: /etc/one.env, append: true, content: "B=2\n"}
runcmd:
  - echo line
  - [systemctl, enable, "it's"]
`

func TestParse(t *testing.T) {
	t.Parallel()
	want := cloudinit.Config{
		Files: []cloudinit.File{
			{Path: "/etc/one.env", Mode: 0o600, Owner: "root:root", Content: []byte("A=1\n")},
			{Path: "/usr/local/bin/two", Mode: 0o755, Content: []byte("#!/bin/sh\n")},
			{Path: "/etc/one.env", Mode: 0o644, Append: true, Content: []byte("B=2\n")},
		},
		RunCmd: []cloudinit.Command{{Line: "echo line"}, {Words: []string{"systemctl", "enable", "it's"}}},
	}
	gz := base64.StdEncoding.EncodeToString(compressed(t, "text"))
	for _, test := range []struct {
		name string
		data []byte
		want cloudinit.Config
	}{
		{"nothing", nil, cloudinit.Config{}},
		{"cloud-config", []byte(cloudConfig), want},
		{"compressed cloud-config", compressed(t, cloudConfig), want},
		{"script", []byte("#!/bin/bash\ntrue\n"), cloudinit.Config{Script: []byte("#!/bin/bash\ntrue\n")}},
		{
			"compressed file", []byte("#cloud-config\nwrite_files: [{path: /x, encoding: gz+b64, content: " + gz + "}]"),
			cloudinit.Config{Files: []cloudinit.File{{Path: "/x", Mode: 0o644, Content: []byte("text")}}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := cloudinit.Parse(test.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"another format":         "Content-Type: multipart/mixed\n",
		"an unknown key":         "#cloud-config\nruncmds: [true]\n",
		"a relative path":        "#cloud-config\nwrite_files: [{path: etc/x}]\n",
		"a path with dots":       "#cloud-config\nwrite_files: [{path: /etc/../x}]\n",
		"a bad mode":             "#cloud-config\nwrite_files: [{path: /x, permissions: rw}]\n",
		"an unknown encoding":    "#cloud-config\nwrite_files: [{path: /x, encoding: rot13}]\n",
		"a command of numbers":   "#cloud-config\nruncmd: [[1, 2]]\n",
		"half a gzip":            "\x1f\x8b\x08",
		"a key that comes twice": "#cloud-config\nruncmd: []\nruncmd: []\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := cloudinit.Parse([]byte(text)); err == nil {
				t.Errorf("it is taken as %+v", got)
			}
		})
	}
}

func TestWriteMakesFilesAndScripts(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	config, err := cloudinit.Parse([]byte(cloudConfig))
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := config.Write(root)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "etc/one.env"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(content); got != "A=1\nB=2\n" {
		t.Errorf("file holds %q", got)
	}
	if info, err := os.Stat(filepath.Join(root, "usr/local/bin/two")); err != nil || info.Mode() != 0o755 {
		t.Errorf("file's mode is %v, %v", info.Mode(), err)
	}
	if len(scripts) != 1 {
		t.Fatalf("scripts are %v, want one", scripts)
	}
	command := exec.CommandContext(t.Context(), "sh", filepath.Join(root, scripts[0]))
	command.Env = []string{"PATH=" + fakeSystemctl(t) + ":" + os.Getenv("PATH")} //nolint:forbidigo // the test's own
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := string(out); got != "line\nenable it's\n" {
		t.Errorf("the script prints %q", got)
	}
}

// fakeSystemctl is a directory with a systemctl that prints its arguments.
func fakeSystemctl(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(cloudConfig))
	f.Add(compressed(f, cloudConfig))
	f.Add([]byte("#!/bin/sh\n"))
	f.Add([]byte("#cloud-config\nwrite_files: [{path: /x, encoding: gz+b64, content: H4sI}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := cloudinit.Parse(data)
		if err != nil {
			return
		}
		for _, file := range config.Files {
			if !filepath.IsAbs(file.Path) || filepath.Clean(file.Path) != file.Path {
				t.Errorf("path %q would leave the root", file.Path)
			}
			if file.Mode > 0o777 {
				t.Errorf("mode %o of %s", file.Mode, file.Path)
			}
		}
	})
}
