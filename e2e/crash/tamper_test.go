package crash

import (
	"context"
	"regexp"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim"
)

var jobsPath = regexp.MustCompile(`/jobs$`)

// removeConfigMap deletes the ConfigMap of an environment's run while the request
// for its Job is held, and tells what went wrong, or nothing.
func removeConfigMap(t *testing.T, environment string, done chan<- string) func(context.Context) int {
	t.Helper()
	return func(ctx context.Context) int {
		maps := platform.Kubernetes.CoreV1().ConfigMaps(sim.RunNamespace)
		err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: runcontract.LabelEnvironment + "=" + environment})
		if err != nil {
			done <- err.Error()
			return 0
		}
		done <- ""
		return 0
	}
}
