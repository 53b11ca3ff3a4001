package sshd

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/sim/machine/guest"
)

const (
	// Unit is the service's name.
	Unit = "ssh.service"
	// Port is where it listens on the machine.
	Port = 22
)

// Account is somebody who may log in.
type Account struct {
	Home string // an absolute path on the machine
	UID  int    // who owns the home; the group has the same number
	Keys string // lines of authorized_keys, options included; empty: none
}

// Host is a machine that is to have a server.
type Host struct {
	Addresses []string // where it listens
	Accounts  []Account
	LoneUser  bool // the machine has no user's id but root's
	// Place gives the path on this machine of a path on the machine.
	Place func(path string) (string, error)
}

// Install writes all that the server needs, and enables it. It returns the public
// host keys as lines of authorized_keys.
func (s Server) Install(host Host) (hostKeys []string, err error) {
	files := map[string]file{
		"/etc/ssh/sshd_config":                                {content: s.config(host.Addresses), mode: 0o644},
		"/usr/local/lib/systemd/system/" + Unit:               {content: s.unit(host.LoneUser), mode: 0o644},
		"/etc/systemd/system/multi-user.target.wants/" + Unit: {link: "/usr/local/lib/systemd/system/" + Unit},
		"/usr/sbin/sshd":                                      {link: filepath.Join(Dir, s.program)},
	}
	_, ed25519Key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	ecdsaKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	for _, hostKey := range []struct {
		kind string
		key  any
	}{{"ed25519", ed25519Key}, {"ecdsa", ecdsaKey}} {
		private, public, err := encode(hostKey.key)
		if err != nil {
			return nil, err
		}
		path := "/etc/ssh/ssh_host_" + hostKey.kind + "_key"
		files[path] = file{content: private, mode: 0o600}
		files[path+".pub"] = file{content: public, mode: 0o644}
		hostKeys = append(hostKeys, strings.TrimSpace(public))
	}
	for path, f := range files {
		if err := f.write(host, path); err != nil {
			return nil, err
		}
	}
	for _, account := range host.Accounts {
		if err := account.make(host); err != nil {
			return nil, fmt.Errorf("make %s: %w", account.Home, err)
		}
	}
	return hostKeys, nil
}

func encode(key any) (private, public string, err error) {
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return "", "", err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(block)), string(ssh.MarshalAuthorizedKey(signer.PublicKey())), nil
}

func (s Server) config(addresses []string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Port %d\nAddressFamily inet\n", Port)
	for _, address := range addresses {
		fmt.Fprintf(&out, "ListenAddress %s\n", address)
	}
	out.WriteString(`HostKey /etc/ssh/ssh_host_ed25519_key
HostKey /etc/ssh/ssh_host_ecdsa_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
SetEnv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
`)
	if s.atLeast(9, 8) {
		out.WriteString("PerSourcePenalties no\n")
	}
	if s.helper {
		fmt.Fprintf(&out, "SshdSessionPath %s/sshd-session\n", Dir)
		if s.atLeast(10, 0) {
			fmt.Fprintf(&out, "SshdAuthPath %s/sshd-auth\n", Dir)
		}
	}
	return out.String()
}

func (s Server) unit(loneUser bool) string {
	environment, command := "", filepath.Join(Dir, s.program)
	if loneUser { // sshd gives up its groups, which the kernel refuses there
		command = "/usr/bin/" + guest.LoneUser + " " + command
	}
	if s.library {
		environment = "Environment=LD_LIBRARY_PATH=" + Dir + "/lib\n"
	}
	return `[Unit]
Description=OpenBSD Secure Shell server
After=network.target

[Service]
` + environment + `ExecStart=` + command + ` -D -e
KillMode=process
Restart=on-failure
RestartPreventExitStatus=255
RuntimeDirectory=sshd

[Install]
WantedBy=multi-user.target
`
}

// make makes an account's home.
func (a Account) make(host Host) error {
	home, err := host.Place(a.Home)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(home, ".ssh"), 0o700); err != nil {
		return err
	}
	keys := strings.TrimSpace(a.Keys) + "\n"
	if err := os.WriteFile(filepath.Join(home, ".ssh", "authorized_keys"), []byte(keys), 0o600); err != nil {
		return err
	}
	if err := os.Chmod(home, 0o750); err != nil || a.UID == 0 {
		return err
	}
	return filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, a.UID, a.UID))
	})
}

// file is a file of the machine, or a link.
type file struct {
	content, link string
	mode          fs.FileMode
}

func (f file) write(host Host, path string) error {
	place, err := host.Place(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(place); err != nil { // a link would lead to this machine's own file
		return err
	}
	if f.link != "" {
		return os.Symlink(f.link, place)
	}
	return os.WriteFile(place, []byte(f.content), f.mode)
}
