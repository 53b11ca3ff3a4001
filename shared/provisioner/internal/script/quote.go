package script

import (
	"errors"
	"strings"
)

// Quote makes a word of which bash reads exactly the given text, whatever is in it.
// Only a NUL byte cannot be had in a shell, and is an error.
func Quote(text string) (string, error) {
	if strings.ContainsRune(text, 0) {
		return "", errors.New("has a NUL byte, which no shell can hold")
	}
	// Within single quotes nothing has a meaning but their end.
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'", nil
}
