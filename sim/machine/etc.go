package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// overrideFile is where bootstrap scripts look for settings of a simulator.
const overrideFile = "kubeopera/bootstrap.override"

// writeEtc writes /etc of a fresh Ubuntu as far as anything here looks at it.
func (h host) writeEtc(m *Machine) error {
	name := m.hostname
	files := map[string]string{ //nolint:gosec // the passwd file has no passwords
		"hostname": name + "\n",
		"hosts":    "127.0.0.1 localhost\n::1 ip6-localhost ip6-loopback\n",
		// Amazon's own resolver; it is in every network.
		"resolv.conf":             "nameserver 169.254.169.253\noptions timeout:1 attempts:2\nsearch " + strings.TrimPrefix(m.instance.PrivateDNS, name+".") + "\n",
		"nsswitch.conf":           "passwd: files\ngroup: files\nhosts: files dns\n",
		"passwd":                  "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group":                   "root:x:0:\nnogroup:x:65534:\n",
		"fstab":                   "LABEL=cloudimg-rootfs / ext4 discard,commit=30,errors=remount-ro 0 1\n",
		"os-release":              m.system().release,
		"machine-id":              strings.ReplaceAll(m.instance.ID, "i-", "00000000") + "\n",
		"apt/sources.list.d/.dir": "", "apt/keyrings/.dir": "", "systemd/system/.dir": "", "default/.dir": "", "sysctl.d/.dir": "",
		"kernel/.dir": "",
	}
	if m.system().rpm {
		files["yum.repos.d/.dir"], files["pki/rpm-gpg/.dir"] = "", ""
		files["selinux/config"] = "SELINUX=" + m.system().selinux + "\nSELINUXTYPE=targeted\n"
		delete(files, "apt/sources.list.d/.dir")
		delete(files, "apt/keyrings/.dir")
	}
	if m.existing != nil {
		maps.Copy(files, h.accounts(m, files))
	}
	bundle, err := h.certificates()
	if err != nil {
		return err
	}
	bundle += string(m.machines.web.CA())
	for _, path := range []string{"ssl/certs/ca-certificates.crt", "ssl/cert.pem", "pki/tls/certs/ca-bundle.crt"} {
		files[path] = bundle
	}
	for _, path := range []string{"ssl/openssl.cnf", "services", "protocols"} {
		if content, err := os.ReadFile(filepath.Join("/etc", path)); err == nil {
			files[path] = string(content)
		}
	}
	settings := map[string]string{"AWS_ENDPOINT_URL": h.config.Account.URL(), "KUBEOPERA_POLL_SECONDS": "2"}
	maps.Copy(settings, m.machines.web.Settings())
	maps.Copy(settings, h.config.Settings)
	var override strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&override, "%s=%s\n", key, settings[key])
	}
	files[overrideFile] = override.String()
	for path, content := range files {
		full := filepath.Join(m.dir, "disk/etc", path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if filepath.Base(path) == ".dir" {
			continue
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// accounts are the files that say who may do what on an existing machine: its
// user, who may use sudo, and the one to whom sshd drops its rights.
func (h host) accounts(m *Machine, files map[string]string) map[string]string {
	changed := map[string]string{"hosts": files["hosts"] + "127.0.1.1 " + m.hostname + "\n"} // as on Ubuntu
	daemon := "105:65534"
	if h.loneUser {
		daemon = "0:0"
	}
	changed["passwd"] = files["passwd"] + "sshd:x:" + daemon + "::/run/sshd:/usr/sbin/nologin\n"
	if user := m.existing.spec.User; user != "root" {
		changed["passwd"] += fmt.Sprintf("%s:x:%d:%d::/home/%s:/bin/bash\n", user, h.uid(), h.uid(), user)
		changed["group"] = files["group"] + fmt.Sprintf("%s:x:%d:\n%s:x:27:%s\n", user, h.uid(), m.system().group, user)
		changed["sudoers.d/90-cloud-init-users"] = user + " ALL=(ALL) NOPASSWD:ALL\n"
	}
	return changed
}

// certificates are the authorities that this machine trusts.
func (h host) certificates() (string, error) {
	for _, path := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"} {
		content, err := os.ReadFile(path)
		if err == nil {
			return string(content), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}
