package systemd

import (
	"os"
	"path/filepath"
	"strings"
)

// checks are the conditions that are looked at; all others hold.
var checks = map[string]func(string) bool{
	"PathExists":      exists,
	"PathExistsGlob":  func(path string) bool { found, err := filepath.Glob(path); return err == nil && len(found) > 0 },
	"PathIsDirectory": func(path string) bool { info, err := os.Stat(path); return err == nil && info.IsDir() },
	"PathIsSymbolicLink": func(path string) bool {
		info, err := os.Lstat(path)
		return err == nil && info.Mode()&os.ModeSymlink != 0
	},
	"FileNotEmpty": func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular() && info.Size() > 0
	},
	"FileIsExecutable": func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	},
	"DirectoryNotEmpty": func(path string) bool { entries, err := os.ReadDir(path); return err == nil && len(entries) > 0 },
	"PathIsReadWrite":   exists,
	"PathIsMountPoint":  exists,
	"FirstBoot":         func(string) bool { return true },
	"NeedsUpdate":       func(string) bool { return true },
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// unmet names the first condition (or, with kind Assert, assertion) of a unit
// that does not hold.
func (u *unit) unmet(kind string) (string, bool) {
	for name, holds := range checks {
		key := kind + name
		for _, value := range u.all("Unit." + key) {
			path, negated := strings.CutPrefix(strings.TrimPrefix(value, "|"), "!")
			if holds(strings.TrimSpace(path)) == negated {
				return key + "=" + value, true
			}
		}
	}
	return "", false
}
