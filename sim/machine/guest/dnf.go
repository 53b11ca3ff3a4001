package guest

import (
	"context"
	"os"
	"regexp"
	"strings"
)

// rpmSpec is NAME or NAME-[EPOCH:]VERSION[-RELEASE], the version perhaps a pattern.
var rpmSpec = regexp.MustCompile(`^(.+?)-((?:\d+:)?\d[^-]*(?:-[^-]+)?)$`)

// dnf does at once what dnf does; it downloads nothing.
func dnf(ctx context.Context, args []string, io stdio) int {
	var words []string
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			words = append(words, arg)
		}
	}
	if len(words) == 0 {
		io.errorf("usage: dnf [options] COMMAND\n")
		return 1
	}
	if os.Geteuid() != 0 {
		io.errorf("Error: This command has to be run with superuser privileges (under the root user on most systems).\n")
		return 1
	}
	switch words[0] {
	case "makecache", "check-update", "clean", "update", "upgrade", "module", "config-manager", "versionlock":
		return 0
	case "install", "reinstall", "downgrade":
		for _, spec := range words[1:] {
			name, wanted := spec, ""
			if parts := rpmSpec.FindStringSubmatch(spec); parts != nil {
				name, wanted = parts[1], parts[2]
			}
			// An architecture is no part of the version, but of a kernel's release.
			if !strings.HasPrefix(name, "kernel") {
				wanted = strings.TrimSuffix(strings.TrimSuffix(wanted, ".x86_64"), ".aarch64")
			}
			if err := installPackage(ctx, name, wanted, true, true, io); err != nil {
				io.errorf("No match for argument: %s\nError: Unable to find a match: %s: %v\n", spec, spec, err)
				return 1
			}
		}
		return 0
	case "remove":
		return aptGet(ctx, words, io)
	}
	io.errorf("No such command: %s: the light machine does not have it.\n", words[0])
	return 1
}

// rpm imports keys, and tells what is installed.
func rpm(_ context.Context, args []string, io stdio) int {
	query, importing, format := false, false, ""
	var words []string
	for i := 0; i < len(args); i++ {
		text, isFormat := strings.CutPrefix(args[i], "--qf=")
		switch {
		case isFormat:
			format = text
		case (args[i] == "--qf" || args[i] == "--queryformat") && i+1 < len(args):
			i++
			format = args[i]
		case args[i] == "--import":
			importing = true
		case args[i] == "-E" || args[i] == "--eval":
			io.printf("9\n")
			return 0
		case strings.HasPrefix(args[i], "-q"):
			query = true
		case !strings.HasPrefix(args[i], "-"):
			words = append(words, args[i])
		}
	}
	if importing == query {
		io.errorf("rpm: the light machine knows -q and --import\n")
		return 1
	}
	packages, code := readList(packageList), 0
	for _, word := range words {
		if importing {
			if content, err := os.ReadFile(word); err != nil || !strings.Contains(string(content), KeyComment) {
				io.errorf("error: %s: key 1 not an armored public key.\n", word)
				code = 1
			}
			continue
		}
		full, ok := packages[word]
		if !ok {
			io.printf("package %s is not installed\n", word)
			code = 1
			continue
		}
		epoch, rest, hasEpoch := strings.Cut(full, ":")
		if !hasEpoch {
			epoch, rest = "(none)", full
		}
		version, release, _ := strings.Cut(rest, "-")
		if format == "" {
			format = "%{NAME}-%{VERSION}-%{RELEASE}\n"
		}
		io.printf("%s", strings.NewReplacer("%{NAME}", word, "%{EPOCH}", epoch, "%{VERSION}", version, "%{RELEASE}", release,
			"%{ARCH}", "x86_64", `\t`, "\t", `\n`, "\n").Replace(format))
	}
	return code
}

// selinux is the mode that was set since the boot.
const selinux = "/run/machine-selinux"

func getenforce(_ context.Context, _ []string, io stdio) int {
	mode, err := os.ReadFile(selinux)
	if err != nil {
		config, err := os.ReadFile("/etc/selinux/config")
		mode = []byte("Permissive")
		if err == nil && strings.Contains("\n"+string(config), "\nSELINUX=enforcing\n") {
			mode = []byte("Enforcing")
		}
	}
	io.printf("%s\n", mode)
	return 0
}

func setenforce(_ context.Context, args []string, io stdio) int {
	if len(args) != 1 {
		io.errorf("usage:  setenforce [ Enforcing | Permissive | 1 | 0 ]\n")
		return 1
	}
	mode := "Enforcing"
	if args[0] == "0" || strings.EqualFold(args[0], "permissive") {
		mode = "Permissive"
	}
	if err := writeFile(selinux, mode, 0o644); err != nil {
		io.errorf("setenforce: setenforce() failed\n")
		return 1
	}
	return 0
}
