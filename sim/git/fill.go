package git

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
)

// Fill gives a branch a long history: count commits, each of which replaces one
// file by size bytes that do not compress. The branch must not exist yet. A
// shallow clone is one commit's size, a full one all of it.
func (r *Repository) Fill(ctx context.Context, branch string, count, size int, seed uint64) error {
	cmd := r.command(ctx, "-c", "core.compression=0", "fast-import", "--quiet", "--depth=0") // no deltas, which would take most of the time
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	writeErr := writeHistory(in, branch, count, size, seed)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("fill %s: %w: %s", r.name, err, strings.TrimSpace(stderr.String()))
	}
	return writeErr
}

// writeHistory writes what git fast-import reads.
func writeHistory(to io.WriteCloser, branch string, count, size int, seed uint64) error {
	random := rand.NewChaCha8([32]byte(binary.LittleEndian.AppendUint64(make([]byte, 24, 32), seed)))
	out := bufio.NewWriter(to)
	content := make([]byte, size)
	for i := range count {
		_, _ = random.Read(content) // it never fails
		message := fmt.Sprintf("change %d", i+1)
		fmt.Fprintf(out, "commit refs/heads/%s\ncommitter Simulator <simulator@kubeopera.invalid> %d +0000\ndata %d\n%s\n",
			branch, 1_700_000_000+i, len(message), message)
		fmt.Fprintf(out, "M 100644 inline assets/data.bin\ndata %d\n", size)
		_, _ = out.Write(content)
		_, _ = out.WriteString("\n\n")
	}
	if err := out.Flush(); err != nil { // it keeps the first error
		_ = to.Close()
		return err
	}
	return to.Close()
}
