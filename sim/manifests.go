package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// notInstalled are kinds of deploy/ that have no meaning here: the services run
// as processes of the simulator, and it has no pod network.
var notInstalled = []string{"Deployment", "Service", "NetworkPolicy", "PersistentVolumeClaim", "Kustomization"}

// installManifests applies the manifests that a user would apply, from dir.
func installManifests(ctx context.Context, config *rest.Config, dir string) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	objects, err := readManifests(dir)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if slices.Contains(notInstalled, object.GetKind()) {
			continue
		}
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("install %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// readManifests reads every YAML file of dir, namespaces first.
func readManifests(dir string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no manifests in %s", dir)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if len(object.Object) > 0 {
				objects = append(objects, object)
			}
		}
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return rank(a) - rank(b)
	})
	return objects, nil
}

func rank(object *unstructured.Unstructured) int {
	if object.GetKind() == "Namespace" {
		return 0
	}
	return 1
}
