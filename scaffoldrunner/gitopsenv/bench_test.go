package gitopsenv_test

import (
	"testing"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
)

func BenchmarkComplete(b *testing.B) {
	base := embedded(nil)
	for b.Loop() {
		if _, err := gitopsenv.Complete(base, acme(), &sealer{}); err != nil {
			b.Fatal(err)
		}
	}
}
