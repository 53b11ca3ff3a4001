package cloudinit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Where cloud-init keeps the scripts that it makes of user_data.
const (
	scriptDir   = "/var/lib/cloud/instance/scripts"
	bootScript  = scriptDir + "/bootcmd"
	runScript   = scriptDir + "/runcmd"
	wholeScript = scriptDir + "/part-001"
)

// Write writes the files of the configuration below root, in their order, and
// returns the scripts to run after that, in their order, as paths below root.
// What bootcmd changes, and files that wait for it, are apart only in order here:
// no package installation is in between.
func (c Config) Write(root string) (scripts []string, err error) {
	if len(c.BootCmd) > 0 {
		if err := writeFile(root, File{Path: bootScript, Content: script(c.BootCmd), Mode: 0o700}); err != nil {
			return nil, err
		}
		scripts = append(scripts, bootScript)
	}
	for _, later := range []bool{false, true} {
		for _, file := range c.Files {
			if file.Defer != later {
				continue
			}
			if err := writeFile(root, file); err != nil {
				return nil, err
			}
		}
	}
	if len(c.RunCmd) > 0 {
		if err := writeFile(root, File{Path: runScript, Content: script(c.RunCmd), Mode: 0o700}); err != nil {
			return nil, err
		}
		scripts = append(scripts, runScript)
	}
	if len(c.Script) > 0 {
		if err := writeFile(root, File{Path: wholeScript, Content: c.Script, Mode: 0o700}); err != nil {
			return nil, err
		}
		scripts = append(scripts, wholeScript)
	}
	return scripts, nil
}

// script goes on after a command that fails, as cloud-init's does.
func script(commands []Command) []byte {
	var out bytes.Buffer
	out.WriteString("#!/bin/sh\n")
	for _, command := range commands {
		out.WriteString(command.Shell() + "\n")
	}
	return out.Bytes()
}

func writeFile(root string, file File) (err error) {
	path := filepath.Join(root, file.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", file.Path, err)
	}
	flags := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if file.Append {
		flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	out, err := os.OpenFile(path, flags, file.Mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", file.Path, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := out.Write(file.Content); err != nil {
		return fmt.Errorf("write %s: %w", file.Path, err)
	}
	// The mode given at opening is cut by the umask and ignored if the file was there.
	return out.Chmod(file.Mode)
}
