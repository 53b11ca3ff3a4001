package node

import (
	"maps"
	"sync"
	"time"
)

// Image says what a container of an image sees and runs. An image's name is
// compared as a whole, tag and digest included.
type Image struct {
	// Binds maps paths in the container to files and directories of this
	// machine, which the container sees read-only.
	Binds map[string]string
	// Env is the environment that the image sets.
	Env map[string]string
	// Entrypoint and Command are those of the image: a pod's command replaces
	// both, a pod's args only Command.
	Entrypoint, Command []string
	// WorkingDir is where the command starts.
	WorkingDir string
	// PullTime is how long a pull takes.
	PullTime time.Duration
}

// images is the registry that the node pulls from.
type images struct {
	mu     *sync.Mutex
	byName map[string]Image
}

func newImages(initial map[string]Image) images {
	byName := map[string]Image{}
	maps.Copy(byName, initial)
	return images{mu: &sync.Mutex{}, byName: byName}
}

func (i images) get(name string) (Image, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	image, ok := i.byName[name]
	return image, ok
}

// AddImage makes an image available, or replaces it for containers that start
// from now on.
func (n *Node) AddImage(name string, image Image) {
	n.images.mu.Lock()
	defer n.images.mu.Unlock()
	n.images.byName[name] = image
}

// RemoveImage makes pulls of an image fail from now on.
func (n *Node) RemoveImage(name string) {
	n.images.mu.Lock()
	defer n.images.mu.Unlock()
	delete(n.images.byName, name)
}
