package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubeopera/platform/sim/machine/systemd"
)

const (
	packageList = "/var/lib/dpkg/installed" // "name version" a line
	holdList    = "/var/lib/dpkg/held"      // a name a line
)

// aptGet does at once what apt-get does; it downloads nothing.
func aptGet(ctx context.Context, args []string, io stdio) int {
	var words []string
	changeHeld := false
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-o" || args[i] == "-t" || args[i] == "-c":
			i++
		case args[i] == "--allow-change-held-packages":
			changeHeld = true
		case strings.HasPrefix(args[i], "-"):
		default:
			words = append(words, args[i])
		}
	}
	if len(words) == 0 {
		io.errorf("E: no command\n")
		return 1
	}
	switch words[0] {
	case "update":
		io.printf("Reading package lists...\n")
		return 0
	case "remove", "purge":
		packages := readList(packageList)
		for _, name := range words[1:] {
			delete(packages, name)
		}
		if err := writeList(packageList, packages); err != nil {
			io.errorf("E: %v\n", err)
			return 100
		}
		return 0
	case "upgrade", "dist-upgrade", "full-upgrade", "autoremove", "clean", "autoclean", "check":
		return 0
	case "install", "reinstall":
		for _, spec := range words[1:] {
			if err := install(ctx, spec, changeHeld, io); err != nil {
				io.errorf("E: %v\n", err)
				return 100
			}
		}
		return 0
	}
	io.errorf("E: the light machine does not have the operation %s\n", words[0])
	return 100
}

func install(ctx context.Context, spec string, changeHeld bool, io stdio) error {
	name, wanted, _ := strings.Cut(spec, "=")
	return installPackage(ctx, name, wanted, changeHeld, false, io)
}

// installPackage is what apt-get and dnf have in common.
func installPackage(ctx context.Context, name, wanted string, changeHeld, rpm bool, io stdio) error {
	if os.Geteuid() != 0 {
		return errors.New("could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)")
	}
	pkg, special := catalog(rpm)[name]
	if release, ok := strings.CutPrefix(name, "linux-image-"); ok && !rpm && release != "generic" && release != "aws" {
		if err := writeFile("/boot/vmlinuz-"+release, "", 0o644); err != nil {
			return err
		}
		pkg, special = aptPackage{newest: release, kernel: true}, true
	}
	if !special {
		pkg = aptPackage{commands: []string{name}, newest: "1.0-light"}
	}
	for _, other := range pkg.with {
		if err := installPackage(ctx, other, "", changeHeld, rpm, io); err != nil {
			return err
		}
	}
	version, err := pkg.version(name, wanted)
	if err != nil {
		return err
	}
	packages := readList(packageList)
	if old, ok := packages[name]; ok {
		if old == version {
			io.printf("%s is already the newest version (%s).\n", name, version)
			return nil
		}
		if _, held := readList(holdList)[name]; held && !changeHeld {
			return errors.New("held packages were changed and -y was used without --allow-change-held-packages")
		}
	}
	io.printf("Setting up %s (%s) ...\n", name, version)
	for _, command := range pkg.commands {
		if err := link(command); err != nil {
			return err
		}
	}
	for file, content := range pkg.units {
		if err := writeFile(filepath.Join(unitDir, file), content, 0o644); err != nil {
			return err
		}
	}
	for path, content := range pkg.files {
		if err := writeFile(path, content, 0o644); err != nil {
			return err
		}
	}
	if pkg.kernel {
		if err := writeFile(nextKernel, version, 0o644); err != nil {
			return err
		}
	}
	if pkg.start != "" {
		if code, err := systemd.Call(ctx, managerSocket, []string{"enable", "--now", pkg.start}, io.out, io.err); err != nil || code != 0 {
			return fmt.Errorf("start %s: %d, %w", pkg.start, code, err)
		}
	}
	packages[name] = version
	return writeList(packageList, packages)
}

// version picks a package's version from what its repository is taken to have:
// every patch of the minor that a source list names.
func (p aptPackage) version(name, wanted string) (string, error) {
	sources := sourceLists()
	minor := ""
	if parts := strings.SplitN(wanted, ".", 3); len(parts) == 3 {
		minor = parts[0] + "." + parts[1]
	}
	before, after, perMinor := strings.Cut(p.repository, "%s")
	if !strings.Contains(sources, before) {
		return "", fmt.Errorf("unable to locate package %s", name)
	}
	newest := p.newest
	if perMinor {
		if _, rest, ok := strings.Cut(sources, before); ok && minor == "" {
			minor, _, _ = strings.Cut(rest, "/")
		}
		if !strings.Contains(sources, before+minor+after) {
			return "", fmt.Errorf("version '%s' for '%s' was not found", wanted, name)
		}
		if newest == "" {
			newest = minor + ".5" + p.revision
		}
	}
	prefix, _, isPattern := strings.Cut(wanted, "*")
	switch {
	case wanted == "":
		return newest, nil
	case isPattern && p.revision != "" && strings.HasSuffix(prefix, "-"):
		return strings.TrimSuffix(prefix, "-") + p.revision, nil
	case isPattern && strings.HasPrefix(newest, prefix):
		return newest, nil
	case !isPattern && p.revision != "" && !strings.Contains(wanted, "-"): // as dnf takes it
		return wanted + p.revision, nil
	case !isPattern:
		return wanted, nil
	}
	return "", fmt.Errorf("version '%s' for '%s' was not found", wanted, name)
}

func sourceLists() string {
	var all strings.Builder
	for _, pattern := range []string{"/etc/apt/sources.list", "/etc/apt/sources.list.d/*", "/etc/yum.repos.d/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			continue // the pattern is right
		}
		for _, path := range paths {
			if content, err := os.ReadFile(path); err == nil {
				all.Write(content)
			}
		}
	}
	return all.String()
}

// link makes a command appear: the stand-in if there is one, else the host's.
func link(name string) error {
	target := filepath.Join(HostBin, name)
	_, isStandIn := installed()[name]
	if _, atBase := base()[name]; atBase || isStandIn {
		target = Program
	} else if !exists(target) {
		return nil // a package whose name is no command's
	}
	path := filepath.Join("/usr/bin", name)
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.Symlink(target, path)
}

func aptCache(_ context.Context, args []string, io stdio) int {
	if len(args) > 1 && (args[0] == "policy" || args[0] == "madison" || args[0] == "show") {
		io.printf("%s:\n  Candidate: %s\n", args[1], readList(packageList)[args[1]])
	}
	return 0
}

func aptMark(_ context.Context, args []string, io stdio) int {
	if len(args) == 0 {
		return 1
	}
	held := readList(holdList)
	for _, name := range args[1:] {
		switch args[0] {
		case "hold":
			held[name] = "hold"
			io.printf("%s set on hold.\n", name)
		case "unhold":
			delete(held, name)
			io.printf("Canceled hold on %s.\n", name)
		}
	}
	if args[0] == "showhold" {
		for name := range held {
			io.printf("%s\n", name)
		}
	}
	if err := writeList(holdList, held); err != nil {
		io.errorf("%v\n", err)
		return 1
	}
	return 0
}

func dpkg(_ context.Context, args []string, io stdio) int {
	if len(args) > 0 && args[0] == "--print-architecture" {
		io.printf("amd64\n")
		return 0
	}
	packages, code, format := readList(packageList), 0, ""
	for i := 0; i < len(args); i++ {
		name := args[i]
		if text, ok := strings.CutPrefix(name, "--showformat="); ok {
			format = text
			continue
		}
		if text, ok := strings.CutPrefix(name, "-f"); ok && text == "" && i+1 < len(args) {
			i++
			format = args[i]
			continue
		} else if ok {
			format = strings.TrimPrefix(text, "=")
			continue
		}
		if strings.HasPrefix(name, "-") {
			continue
		}
		version, ok := packages[name]
		if !ok {
			io.errorf("dpkg-query: no packages found matching %s\n", name)
			code = 1
			continue
		}
		if format != "" {
			io.printf("%s", strings.NewReplacer("${Status}", "install ok installed", "${db:Status-Status}", "installed",
				"${Version}", version, "${Package}", name, `\t`, "\t", `\n`, "\n").Replace(format))
			continue
		}
		io.printf("Package: %s\nStatus: install ok installed\nVersion: %s\n", name, version)
	}
	return code
}

func snap(_ context.Context, args []string, io stdio) int {
	io.errorf("error: the light machine has no snaps: %s\n", strings.Join(args, " "))
	return 1
}

// gpg knows the keys of the stand-in web server, which name their fingerprint.
func gpg(_ context.Context, args []string, io stdio) int {
	output, show, dearmor := "", false, false
	var files []string
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-o", "--output":
			if i++; i < len(args) {
				output = args[i]
			}
		case "--show-keys":
			show = true
		case "--dearmor":
			dearmor = true
		default:
			if !strings.HasPrefix(args[i], "-") {
				files = append(files, args[i])
			}
		}
	}
	if len(files) != 1 || show == dearmor {
		io.errorf("gpg: the light machine knows --show-keys and --dearmor of one file\n")
		return 2
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		io.errorf("gpg: can't open '%s': %v\n", files[0], err)
		return 2
	}
	_, rest, found := strings.Cut(string(content), KeyComment)
	if !found {
		io.errorf("gpg: no valid OpenPGP data found.\n")
		return 2
	}
	if show {
		fingerprint, _, _ := strings.Cut(rest, "\n")
		io.printf("pub:-:4096:1:%s:1:::-:::scSC::::::23::0:\nfpr:::::::::%s:\n", fingerprint[max(0, len(fingerprint)-16):], fingerprint)
		return 0
	}
	if err := os.WriteFile(output, content, 0o600); err != nil {
		io.errorf("gpg: %v\n", err)
		return 2
	}
	return 0
}

// KeyComment precedes the fingerprint in a stand-in key.
const KeyComment = "Comment: stand-in key with fingerprint "

// sysctl sets what belongs to the machine's own network, and accepts the rest.
func sysctl(_ context.Context, args []string, io stdio) int {
	var lines []string
	for i, arg := range args {
		switch {
		case arg == "--system":
			files, err := filepath.Glob("/etc/sysctl.d/*.conf")
			if err != nil {
				continue // the pattern is right
			}
			slices.Sort(files)
			for _, file := range files {
				if content, err := os.ReadFile(file); err == nil {
					lines = append(lines, strings.Split(string(content), "\n")...)
				}
			}
		case arg == "-n" && i+1 < len(args):
			content, err := os.ReadFile(sysctlPath(args[i+1]))
			if err != nil {
				io.errorf("sysctl: cannot stat %s: No such file or directory\n", sysctlPath(args[i+1]))
				return 255
			}
			io.printf("%s", content)
			return 0
		case strings.Contains(arg, "="):
			lines = append(lines, arg)
		}
	}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); ok && strings.HasPrefix(name, "net.") {
			_ = os.WriteFile(sysctlPath(name), []byte(strings.TrimSpace(value)), 0o644) // the rest is the host's
		}
	}
	return 0
}

func sysctlPath(name string) string { return "/proc/sys/" + strings.ReplaceAll(name, ".", "/") }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func readList(path string) map[string]string {
	list := map[string]string{}
	content, err := os.ReadFile(path)
	if err != nil {
		return list
	}
	for line := range strings.Lines(string(content)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			list[name] = value
		}
	}
	return list
}

func writeList(path string, list map[string]string) error {
	var lines []string
	for name, value := range list {
		lines = append(lines, name+" "+value+"\n")
	}
	slices.Sort(lines)
	return writeFile(path, strings.Join(lines, ""), 0o644)
}

func writeFile(path, content string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), mode)
}

// until repeats a check a few times a second until it succeeds or ctx ends.
func until(ctx context.Context, check func() error) error {
	var last error // what was wrong before the end of ctx: that is no reason
	for {
		err := check()
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(300 * time.Millisecond):
		}
	}
}
