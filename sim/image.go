package sim

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubeopera/platform/sim/node"
	"github.com/kubeopera/platform/sim/terraform"
)

// Names of the runners' images; they must be those that the services' Job builders
// pin, which a test holds them to.
const (
	RunnerImage         = "kubeopera/terraform-runner:0.1.0"
	ScaffoldRunnerImage = "kubeopera/scaffold-runner:0.1.0"
)

// hostPaths are what a runner's container sees of this machine: what the image
// has of Debian (a dynamic loader, git, certificates), and no more.
var hostPaths = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec",
	"/usr/share/git-core", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
	"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/ld.so.cache",
}

// Paths inside the images, as their Dockerfiles make them.
const (
	programsInImage  = "/usr/local/bin"
	providersInImage = "/usr/share/terraform/providers"
	cliConfigInImage = "/etc/kubeopera/terraform.rc"
)

// terraformRunnerImage is terraform-runner's image. cliConfig is its Terraform
// configuration file.
func terraformRunnerImage(runner, cliConfig string, tf terraform.Installation) (node.Image, error) {
	return runnerImage("terraform-runner", map[string]string{
		programsInImage + "/terraform-runner": runner,
		programsInImage + "/terraform":        tf.Binary,
		providersInImage:                      tf.Mirror,
		cliConfigInImage:                      cliConfig,
	}, map[string]string{"TF_CLI_CONFIG_FILE": cliConfigInImage})
}

// scaffoldRunnerImage is scaffold-runner's image, of the programs in bin.
func scaffoldRunnerImage(bin string) (node.Image, error) {
	binds := map[string]string{}
	for _, program := range []string{"scaffold-runner", "generate-gitops-env"} {
		binds[programsInImage+"/"+program] = filepath.Join(bin, program)
	}
	return runnerImage("scaffold-runner", binds, map[string]string{"HOME": "/tmp/home"})
}

// runnerImage is the image of a runner of that name: the same paths and
// environment as the real one's, bound from this machine.
func runnerImage(runner string, own, env map[string]string) (node.Image, error) {
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
	for target, source := range own {
		if _, err := os.Stat(source); err != nil {
			return node.Image{}, fmt.Errorf("image of %s: %w", runner, err)
		}
		binds[target] = source
	}
	env["PATH"] = programsInImage + ":/usr/bin:/bin"
	program := programsInImage + "/" + runner
	return node.Image{Binds: binds, Env: env, Entrypoint: []string{program, "init", "--", program}}, nil
}
