package machine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// awsCLI is the AWS CLI of this machine: what it consists of, and how it is called.
type awsCLI struct {
	command []string // empty: there is none
	trees   []string // to be shown at their own paths
}

// findAWS finds what a CLI consists of: a Python script with its interpreter and
// the packages that it imports, or a directory with a program that needs nothing
// else. What is below /usr machines have anyway.
func findAWS(ctx context.Context, path string) (awsCLI, error) {
	path, err := behindShim(ctx, path)
	if err != nil {
		return awsCLI{}, err
	}
	interpreter, err := shebang(path)
	if err != nil {
		return awsCLI{}, err
	}
	if interpreter == "" {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return awsCLI{}, err
		}
		return awsCLI{command: []string{target}, trees: []string{filepath.Dir(target)}}, nil
	}
	const script = `import json, sys, os, awscli
print(json.dumps([sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(awscli.__file__)), os.path.dirname(os.path.realpath(sys.executable))]))`
	out, err := exec.CommandContext(ctx, interpreter, "-c", script).Output()
	if err != nil {
		return awsCLI{}, fmt.Errorf("ask %s for its files: %w", interpreter, err)
	}
	var trees []string
	if err := json.Unmarshal(out, &trees); err != nil {
		return awsCLI{}, fmt.Errorf("ask %s for its files: %w", interpreter, err)
	}
	cli := awsCLI{command: []string{interpreter, path}}
	trees = append(trees, filepath.Dir(path), filepath.Dir(interpreter))
	slices.Sort(trees)
	for _, tree := range slices.Compact(trees) {
		covered := slices.ContainsFunc(cli.trees, func(other string) bool { return tree == other || strings.HasPrefix(tree, other+"/") })
		inUsr := strings.HasPrefix(tree, "/usr") && !strings.HasPrefix(tree, "/usr/local")
		if !covered && tree != "/" && tree != "/usr" && tree != "/usr/local" && !inUsr && tree != "/bin" {
			cli.trees = append(cli.trees, tree)
		}
	}
	return cli, nil
}

// behindShim asks a version manager for the program behind its script.
func behindShim(ctx context.Context, path string) (string, error) {
	head := make([]byte, 512)
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	n, err := file.Read(head)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	if !strings.Contains(string(head[:n]), "PYENV") {
		return path, nil
	}
	out, err := exec.CommandContext(ctx, "pyenv", "which", filepath.Base(path)).Output()
	if err != nil {
		return "", fmt.Errorf("pyenv which: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// shebang is a script's interpreter; empty for a program.
func shebang(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	line, err := bufio.NewReader(file).ReadString('\n')
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if err != nil || !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return "", nil
	}
	if filepath.Base(words[0]) == "env" && len(words) > 1 {
		return exec.LookPath(words[1])
	}
	return words[0], nil
}

// install writes the command.
func (c awsCLI) install(path string) error {
	if len(c.command) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var quoted []string
	for _, word := range c.command {
		quoted = append(quoted, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	return os.WriteFile(path, []byte("#!/bin/sh\nexec "+strings.Join(quoted, " ")+" \"$@\"\n"), 0o755)
}
