// Package platform is the tree of a whole platform, embedded: infrastructure,
// databases and the platform's services, as clusters/development and
// apps/*/base. An environment is generated from it where the target repository
// has no development tree of its own.
//
// Hosts and registries below .invalid in apps/*/base are nobody's: each
// environment's overlay sets them. The values in the development tree's Secrets
// are for development only; none of them survives in a generated environment.
package platform

import (
	"embed"
	"fmt"
	"io/fs"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
)

//go:embed all:tree
var files embed.FS

// Tree is the embedded tree. The caller owns the map but not the bytes in it.
func Tree() gitopsenv.Tree {
	root, err := fs.Sub(files, "tree")
	if err == nil {
		var tree gitopsenv.Tree
		if tree, err = gitopsenv.Load(root); err == nil {
			return tree
		}
	}
	panic(fmt.Sprintf("embedded tree: %v", err)) // it is part of the program
}
