package gitopsenv

import (
	"bytes"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
)

// Diff are changes as a unified diff, for people. Files that are not text are
// only named.
func Diff(changes []Change) []byte {
	var out bytes.Buffer
	for _, c := range changes {
		from, to := "a/"+c.Path, "b/"+c.Path
		if c.Old == nil {
			from = "/dev/null"
		}
		if c.New == nil {
			to = "/dev/null"
		}
		if bytes.IndexByte(c.Old, 0) >= 0 || bytes.IndexByte(c.New, 0) >= 0 {
			fmt.Fprintf(&out, "binary files %s and %s differ\n", from, to)
			continue
		}
		out.Write(diff.Diff(from, c.Old, to, c.New))
	}
	return out.Bytes()
}
