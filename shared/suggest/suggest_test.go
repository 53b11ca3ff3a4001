package suggest_test

import (
	"testing"

	"github.com/kubeopera/platform/shared/suggest"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"name", "region", "worker_count", "worker_max", "worker_min", "vpc_cidr", "tags"}
	tests := []struct{ name, want string }{
		{"worker_cuont", "worker_count"},
		{"workerCount", "worker_count"},
		{"WORKER-MAX", "worker_max"},
		{"worker_mni", "worker_min"},
		{"regio", "region"},
		{"tag", "tags"},
		{"vpccidr", "vpc_cidr"},
		{"namespace", ""},
		{"x", ""},
		{"", ""},
		{"ï¿½", ""},
	}
	for _, tt := range tests {
		if got := suggest.Nearest(tt.name, known); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
