package gitops

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kubeopera/platform/sim/node"
)

const (
	sealedSecretsChart = "sealed-secrets"
	// controllerPath is where upstream's image has the program, by its PATH.
	controllerPath = "/usr/local/bin/controller"
	// controllerImage is upstream's, for installations that name none.
	controllerImage = "docker.io/bitnami/sealed-secrets-controller:0.40.0"
)

// Controller is an installation of the sealed-secrets controller. Several in one
// cluster each open what was sealed for them only.
type Controller struct {
	Namespace string
	Name      string            // of Deployment, Service and ServiceAccount
	Labels    map[string]string // by which its pods are selected; nil: those of upstream's manifest
	Image     string            // empty: a name of upstream's
	Args      []string          // besides the ones that the chart always gives

	proxier bool // everybody may use the service proxy
}

// SetControllerArgs gives controllers that are deployed from now on further
// arguments: "--key-ttl=1s" makes their certificates expire at once,
// "--key-size=2048" their first start quick.
func (t *Target) SetControllerArgs(args ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.controllerArgs = args
}

// BreakControllerImage makes, or no longer makes, pulls of the images of
// controllers that are deployed from now on fail: they never become available.
func (t *Target) BreakControllerImage(broken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.brokenImage = broken
}

// InstallSealedSecrets installs the kinds and a controller without any release,
// as upstream's manifest does. It does not wait for it to be available.
func (t *Target) InstallSealedSecrets(ctx context.Context, c Controller) error {
	if err := t.installChartCRDs(ctx, sealedSecretsChart); err != nil {
		return err
	}
	if err := t.makeNamespace(ctx, c.Namespace); err != nil {
		return err
	}
	if c.Labels == nil {
		c.Labels = map[string]string{"name": "sealed-secrets-controller"}
	}
	if c.Image == "" {
		c.Image = controllerImage
	}
	_, err := t.deployController(ctx, c)
	return err
}

// deployController applies a controller's objects and gives them.
func (t *Target) deployController(ctx context.Context, c Controller) ([]*unstructured.Unstructured, error) {
	t.mu.Lock()
	c.Args = append(c.Args, t.controllerArgs...)
	broken := t.brokenImage
	t.mu.Unlock()
	binary := t.config.Tools.sealedSecretsController()
	if _, err := os.Stat(binary); err != nil {
		return nil, err
	}
	if broken {
		t.node.RemoveImage(c.Image)
	} else {
		// Only its own program: it is linked statically.
		t.node.AddImage(c.Image, node.Image{
			Binds: map[string]string{controllerPath: binary}, Env: map[string]string{"PATH": "/usr/local/bin"}, Entrypoint: []string{"controller"},
		})
	}
	var applied []*unstructured.Unstructured
	for _, typed := range c.objects() {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{Object: fields}
		unstructured.RemoveNestedField(o.Object, "status")
		if err := t.apply(ctx, o); err != nil {
			return nil, fmt.Errorf("sealed-secrets controller: %w", err)
		}
		applied = append(applied, o)
	}
	return applied, nil
}
