package database

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// fileLock is an advisory lock that the kernel drops with the process.
type fileLock struct{ file *os.File }

// lockFile takes the lock without waiting. The file stays when it is released:
// removing it would let two processes lock two files of that name.
func lockFile(path string) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the path is the service's own configuration
	if err != nil {
		return nil, fmt.Errorf("lock SQLite database: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := io.ReadAll(io.LimitReader(file, 20))
		err = fmt.Errorf("%w: process %s holds %s; a SQLite database serves one process, use Postgres for several",
			ErrInUse, strings.TrimSpace(string(holder)), path)
	}
	if err == nil {
		err = note(file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &fileLock{file: file}, nil
}

// note writes who holds the lock, for the error of the next one.
func note(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("lock SQLite database: %w", err)
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("lock SQLite database: %w", err)
	}
	return nil
}

func (l *fileLock) release() error { return l.file.Close() }
