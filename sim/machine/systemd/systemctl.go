package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// systemctl is one call of the command.
type systemctl struct {
	manager        *Manager
	ctx            context.Context //nolint:containedctx // a call's own, as its output is
	stdout, stderr io.Writer

	now, quiet, noBlock, value, runtime bool
	properties                          []string
}

// Systemctl is the command of that name; it returns the exit code.
func (m *Manager) Systemctl(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s := &systemctl{manager: m, ctx: ctx, stdout: stdout, stderr: stderr}
	words, err := s.options(args)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	if len(words) == 0 {
		words = []string{"list-units"}
	}
	verb, units := words[0], make([]string, 0, len(words))
	for _, name := range words[1:] {
		units = append(units, fullName(name))
	}
	code, err := s.do(verb, units)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
	}
	return code
}

func (s *systemctl) options(args []string) (words []string, err error) {
	for i := 0; i < len(args); i++ {
		option, value, hasValue := strings.Cut(args[i], "=")
		if strings.HasPrefix(args[i], "-p") && !strings.HasPrefix(args[i], "--") && len(args[i]) > 2 {
			option, value, hasValue = "-p", args[i][2:], true
		}
		switch option {
		case "--now":
			s.now = true
		case "-q", "--quiet":
			s.quiet = true
		case "--no-block":
			s.noBlock = true
		case "--value":
			s.value = true
		case "--runtime":
			s.runtime = true
		case "-p", "--property":
			if !hasValue && i+1 < len(args) {
				i++
				value = args[i]
			}
			s.properties = append(s.properties, strings.Split(value, ",")...)
		case "-t", "--type", "-s", "--signal", "-n", "--lines", "-o", "--output", "--state", "--kill-whom", "--job-mode":
			if !hasValue {
				i++
			}
		case "--no-pager", "-a", "--all", "-l", "--full", "--system", "--no-legend", "--no-reload", "-f", "--force", "--wait", "--plain", "--no-wall", "--no-ask-password", "-i":
		default:
			if strings.HasPrefix(args[i], "-") {
				return nil, fmt.Errorf("systemctl: unrecognized option '%s'", args[i])
			}
			words = append(words, args[i])
		}
	}
	return words, nil
}

func (s *systemctl) do(verb string, units []string) (int, error) {
	m := s.manager
	switch verb {
	case "daemon-reload", "daemon-reexec":
		m.reload()
		return 0, nil
	case "start":
		return s.each(units, func(name string) error { return m.start(s.ctx, name) })
	case "restart", "reload-or-restart", "try-restart", "condrestart", "try-reload-or-restart":
		return s.each(units, func(name string) error {
			if strings.HasPrefix(verb, "try") || verb == "condrestart" {
				if m.show(name).active == inactive {
					return nil
				}
			}
			m.stop(name)
			return m.start(s.ctx, name)
		})
	case "reload":
		return s.each(units, func(name string) error { return m.signal(name) })
	case "stop":
		return s.each(units, func(name string) error {
			if _, err := m.unit(name); err != nil {
				return err
			}
			m.stop(name)
			return nil
		})
	case "kill":
		return s.each(units, func(name string) error { return m.signal(name) })
	case "enable", "reenable":
		return s.enable(units)
	case "disable":
		return s.disable(units)
	case "mask":
		return s.mask(units)
	case "unmask":
		return s.unmask(units)
	case "is-active", "is-failed":
		return s.isState(verb, units)
	case "is-enabled":
		return s.isEnabled(units)
	case "status":
		return s.status(units)
	case "show":
		return s.show(units)
	case "cat":
		return s.cat(units)
	case "list-units", "list-timers", "list-unit-files", "list-jobs":
		return s.list(verb)
	case "reset-failed":
		return m.resetFailed(units), nil
	case "is-system-running":
		_, _ = fmt.Fprintln(s.stdout, "running")
		return 0, nil
	case "poweroff", "halt", "reboot":
		if m.config.Shutdown == nil {
			return 1, errors.New("nothing to shut down")
		}
		go func() {
			m.Shutdown()
			m.config.Shutdown(verb == "reboot")
		}()
		return 0, nil
	}
	return 1, fmt.Errorf("unknown command verb '%s', or one that the light machine does not have", verb)
}

// each does something to every unit, not waiting for it with --no-block.
func (s *systemctl) each(units []string, do func(string) error) (int, error) {
	if len(units) == 0 {
		return 1, errors.New("too few arguments")
	}
	if s.noBlock {
		s.ctx = context.WithoutCancel(s.ctx)
		for _, name := range units {
			s.manager.wait.Go(func() {
				if err := do(name); err != nil {
					s.manager.log(name, "%v", err)
				}
			})
		}
		return 0, nil
	}
	code := 0
	var problems []error
	for _, name := range units {
		err := do(name)
		switch {
		case errors.Is(err, errNoUnit):
			code = 5
			problems = append(problems, fmt.Errorf("unit %s not found", name))
		case err != nil:
			code = max(code, 1)
			problems = append(problems, fmt.Errorf("%w\nSee \"systemctl status %s\" and \"journalctl -xeu %s\" for details", err, name, name))
		}
	}
	return code, errors.Join(problems...)
}

func (s *systemctl) linkDir() string { return s.manager.config.Dirs[0] }

// links are what enable makes: link to name, both file names in a directory.
func (s *systemctl) links(u *unit) []string {
	var links []string
	for _, target := range u.words("Install.WantedBy") {
		links = append(links, filepath.Join(s.linkDir(), target+".wants", u.name))
	}
	for _, target := range u.words("Install.RequiredBy") {
		links = append(links, filepath.Join(s.linkDir(), target+".requires", u.name))
	}
	for _, alias := range u.words("Install.Alias") {
		links = append(links, filepath.Join(s.linkDir(), alias))
	}
	return links
}

func (s *systemctl) enable(units []string) (int, error) {
	s.manager.reload() // enable does that by itself
	for _, name := range units {
		u, err := s.manager.unit(name)
		if err != nil {
			return 1, fmt.Errorf("failed to enable unit: Unit file %s does not exist", name)
		}
		if masked(u) {
			return 1, fmt.Errorf("failed to enable unit: Unit file %s is masked", u.path)
		}
		links := s.links(u)
		if len(links) == 0 && !s.quiet {
			_, _ = fmt.Fprintln(s.stderr, "The unit files have no installation config (WantedBy=, RequiredBy=, Also=, Alias= settings in the [Install] section).")
		}
		for _, link := range links {
			if _, err := os.Lstat(link); err == nil {
				continue
			}
			if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
				return 1, err
			}
			if err := os.Symlink(u.path, link); err != nil {
				return 1, err
			}
			if !s.quiet {
				_, _ = fmt.Fprintf(s.stderr, "Created symlink %s → %s.\n", link, u.path)
			}
		}
		for _, also := range u.words("Install.Also") {
			if code, err := s.enable([]string{also}); err != nil {
				return code, err
			}
		}
	}
	if s.now {
		return s.each(units, func(name string) error { return s.manager.start(s.ctx, name) })
	}
	return 0, nil
}

func (s *systemctl) disable(units []string) (int, error) {
	for _, name := range units {
		if _, err := s.manager.unit(name); err != nil {
			return 1, fmt.Errorf("failed to disable unit: Unit file %s does not exist", name)
		}
		for _, kind := range []string{"wants", "requires"} {
			links, err := filepath.Glob(filepath.Join(s.linkDir(), "*."+kind, name))
			if err != nil {
				return 1, err
			}
			for _, link := range links {
				if err := os.Remove(link); err != nil {
					return 1, err
				}
				if !s.quiet {
					_, _ = fmt.Fprintf(s.stderr, "Removed \"%s\".\n", link)
				}
			}
		}
		if s.now {
			s.manager.stop(name)
		}
	}
	return 0, nil
}

func (s *systemctl) mask(units []string) (int, error) {
	for _, name := range units {
		link := filepath.Join(s.linkDir(), name)
		if info, err := os.Lstat(link); err == nil {
			if info.Mode()&os.ModeSymlink == 0 {
				return 1, fmt.Errorf("failed to mask unit: File '%s' already exists", link)
			}
			if err := os.Remove(link); err != nil {
				return 1, err
			}
		}
		if err := os.Symlink("/dev/null", link); err != nil {
			return 1, err
		}
		if s.now {
			s.manager.stop(name)
		}
	}
	s.manager.reload()
	return 0, nil
}

func (s *systemctl) unmask(units []string) (int, error) {
	for _, name := range units {
		link := filepath.Join(s.linkDir(), name)
		if target, err := os.Readlink(link); err == nil && target == "/dev/null" {
			if err := os.Remove(link); err != nil {
				return 1, err
			}
		}
	}
	s.manager.reload()
	return 0, nil
}

func (s *systemctl) isState(verb string, units []string) (int, error) {
	code := 3
	if verb == "is-failed" {
		code = 1
	}
	for _, name := range units {
		state := s.manager.show(name).active
		if !s.quiet {
			_, _ = fmt.Fprintln(s.stdout, state)
		}
		if verb == "is-active" && state == active || verb == "is-failed" && state == failed {
			code = 0
		}
	}
	return code, nil
}

func (s *systemctl) isEnabled(units []string) (int, error) {
	code := 0
	for _, name := range units {
		state := s.enablement(name)
		if state == "not-found" {
			return 4, fmt.Errorf("failed to get unit file state for %s: No such file or directory", name)
		}
		if !s.quiet {
			_, _ = fmt.Fprintln(s.stdout, state)
		}
		if state != "enabled" && state != "static" {
			code = 1
		}
	}
	return code, nil
}

func (s *systemctl) enablement(name string) string {
	u, err := loadUnit(s.manager.config.Dirs, name)
	if err != nil {
		return "not-found"
	}
	if masked(u) {
		return "masked"
	}
	links := s.links(u)
	if len(links) == 0 {
		return "static"
	}
	if slices.ContainsFunc(links, func(link string) bool { _, err := os.Lstat(link); return err == nil }) {
		return "enabled"
	}
	return "disabled"
}

func (s *systemctl) status(units []string) (int, error) {
	code := 0
	for _, name := range units {
		u, err := s.manager.unit(name)
		if err != nil {
			return 4, fmt.Errorf("unit %s could not be found", name)
		}
		state := s.manager.show(name)
		_, _ = fmt.Fprintf(s.stdout, "● %s - %s\n     Loaded: loaded (%s; %s)\n     Active: %s (%s) since %s\n", name,
			u.get("Unit.Description", name), u.path, s.enablement(name), state.active, state.sub, state.since.UTC().Format(time.RFC1123))
		if state.pid != 0 {
			_, _ = fmt.Fprintf(s.stdout, "   Main PID: %d\n", state.pid)
		}
		if state.active == failed {
			_, _ = fmt.Fprintf(s.stdout, "     Result: %s, status=%d\n", state.result, state.exitCode)
		}
		_, _ = fmt.Fprintln(s.stdout)
		s.manager.config.Journal.Journalctl([]string{"-u", name, "-n", "10"}, s.stdout, s.stderr)
		if state.active != active {
			code = 3
		}
	}
	return code, nil
}

func (s *systemctl) show(units []string) (int, error) {
	for _, name := range units {
		state := s.manager.show(name)
		load, path, description := "not-found", "", name
		if u, err := s.manager.unit(name); err == nil {
			load, path, description = "loaded", u.path, u.get("Unit.Description", name)
		}
		values := [][2]string{
			{"Id", name},
			{"Description", description},
			{"LoadState", load},
			{"ActiveState", state.active},
			{"SubState", state.sub},
			{"UnitFileState", s.enablement(name)},
			{"FragmentPath", path},
			{"Result", state.result},
			{"MainPID", strconv.Itoa(state.pid)},
			{"ExecMainStatus", strconv.Itoa(state.exitCode)},
			{"NRestarts", strconv.Itoa(state.restarts)},
		}
		for _, value := range values {
			switch {
			case len(s.properties) > 0 && !slices.Contains(s.properties, value[0]):
			case s.value:
				_, _ = fmt.Fprintln(s.stdout, value[1])
			default:
				_, _ = fmt.Fprintf(s.stdout, "%s=%s\n", value[0], value[1])
			}
		}
	}
	return 0, nil
}

func (s *systemctl) cat(units []string) (int, error) {
	for _, name := range units {
		u, err := s.manager.unit(name)
		if err != nil {
			return 1, fmt.Errorf("no files found for %s", name)
		}
		content, err := os.ReadFile(u.path)
		if err != nil {
			return 1, err
		}
		_, _ = fmt.Fprintf(s.stdout, "# %s\n%s\n", u.path, content)
	}
	return 0, nil
}

func (s *systemctl) list(verb string) (int, error) {
	s.manager.mu.Lock()
	defer s.manager.mu.Unlock()
	names := make([]string, 0, len(s.manager.states))
	for name := range s.manager.states {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		state := s.manager.states[name]
		switch {
		case verb == "list-timers" && filepath.Ext(name) == ".timer":
			_, _ = fmt.Fprintf(s.stdout, "%s %s\n", state.next.UTC().Format(time.RFC3339), name)
		case verb == "list-units":
			_, _ = fmt.Fprintf(s.stdout, "%s loaded %s %s\n", name, state.active, state.sub)
		}
	}
	return 0, nil
}
