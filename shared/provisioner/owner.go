package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"strings"
)

// ownerFile names the environment that a machine belongs to: whoever makes a
// cluster of machines writes it first, and a reset removes it. Two environments
// that name the same machine would else take each other's cluster for their own,
// and the end of one would be the end of the other.
const ownerFile = "/var/lib/kubeopera/environment"

// nobodys is what a machine's owner is if it has a cluster and no owner. No name
// of an environment is like it.
const nobodys = "?"

// ownerCommand prints the owner of a machine. If it has none and no cluster, take
// makes it that of the standard input first.
func ownerCommand(take bool) string {
	claim := ":"
	if take {
		claim = `mkdir -p "${file%/*}" && printf %s "$wanted" >"$file.new" && mv -f "$file.new" "$file"`
	}
	return `: the owner of the machine
umask 077; file=` + ownerFile + `; wanted=$(cat); mkdir -p /run/kubeopera && exec 9>>/run/kubeopera/owner.lock && flock -w 60 9 || exit 1
if [ ! -s "$file" ]; then
  if [ -e ` + kubeletConf + ` ] || [ -e ` + adminConf + ` ]; then echo '` + nobodys + `'; exit 0; fi
  ` + claim + ` || exit 1
fi
if [ -s "$file" ]; then cat "$file"; fi
`
}

// owner is the environment of the call, as machines keep it.
func (r *clusterRun) owner() string {
	return cmp.Or(strings.Trim(scope(&r.env), "/"), "unnamed")
}

// foreignError is a machine that belongs to others.
type foreignError struct{ owner string }

func (e *foreignError) Error() string {
	if e.owner == nobodys {
		return "it belongs to a cluster that is not this environment's: take it out of there first (kubeadm reset)"
	}
	return fmt.Sprintf("it belongs to the environment %.100q: reset it there first; if that is no more, kubeadm reset and remove %s", e.owner, ownerFile)
}

// askOwner is nil if m is the call's, or may become so; with take it does.
func (r *clusterRun) askOwner(ctx context.Context, m *member, take bool) error {
	r.step(m, "owner")
	out, err := m.machine.output(ctx, "ask for its owner", ownerCommand(take), []byte(r.owner()))
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(out)); got != "" && got != r.owner() {
		return &foreignError{owner: got}
	}
	return nil
}

// checkOwners fails what belongs to others; with take the rest becomes the
// environment's.
func (r *clusterRun) checkOwners(ctx context.Context, take bool) {
	r.each(ctx, r.members, r.parallel, PhaseConnecting, func(ctx context.Context, m *member) error { return r.askOwner(ctx, m, take) })
}
