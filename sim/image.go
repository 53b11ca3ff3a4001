package sim

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubeopera/platform/sim/node"
	"github.com/kubeopera/platform/sim/terraform"
)

// RunnerImage is the name of the runner's image; it must be the one that
// cluster-provisioner's Job builder pins, which a test holds it to.
const RunnerImage = "kubeopera/terraform-runner:0.1.0"

// hostPaths are what a runner's container sees of this machine: what the image
// has of Debian (a dynamic loader, git, certificates), and no more.
var hostPaths = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec",
	"/usr/share/git-core", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
	"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/ld.so.cache",
}

// Paths inside the runner's image, as tfrunner/deploy/Dockerfile makes it.
const (
	runnerInImage    = "/usr/local/bin/terraform-runner"
	terraformInImage = "/usr/local/bin/terraform"
	providersInImage = "/usr/share/terraform/providers"
	cliConfigInImage = "/etc/kubeopera/terraform.rc"
)

// runnerImage is the runner's image: the same paths and environment as the
// real one's, bound from this machine. cliConfig is the image's Terraform
// configuration file.
func runnerImage(runner, cliConfig string, tf terraform.Installation) (node.Image, error) {
	binds := map[string]string{}
	for _, path := range hostPaths {
		target, err := filepath.EvalSymlinks(path)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return node.Image{}, err
		}
		binds[path] = target
	}
	for target, source := range map[string]string{
		runnerInImage:    runner,
		terraformInImage: tf.Binary,
		providersInImage: tf.Mirror,
		cliConfigInImage: cliConfig,
	} {
		if _, err := os.Stat(source); err != nil {
			return node.Image{}, fmt.Errorf("runner image: %w", err)
		}
		binds[target] = source
	}
	return node.Image{
		Binds: binds,
		Env: map[string]string{
			"PATH":               "/usr/local/bin:/usr/bin:/bin",
			"TF_CLI_CONFIG_FILE": cliConfigInImage,
		},
		Entrypoint: []string{runnerInImage, "init", "--", runnerInImage},
	}, nil
}
