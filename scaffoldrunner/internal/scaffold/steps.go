package scaffold

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"time"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/internal/repository"
	"github.com/kubeopera/platform/scaffoldrunner/internal/target"
	"github.com/kubeopera/platform/scaffoldrunner/seal"
	"github.com/kubeopera/platform/scaffoldrunner/verify"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// pass is one of the two ways over the branch.
type pass struct {
	name, subject  string // for the commit
	generate, push api.Phase
	// make generates. The certificate is the fingerprint that secrets are sealed for;
	// empty if there are none.
	make func(ctx context.Context, base gitopsenv.Base) (e gitopsenv.Environment, certificate string, err error)
}

// steps is the run, from the spec to what is published.
func (r *scaffoldRun) steps(ctx context.Context) error {
	if err := CheckSpec(r.Spec); err != nil {
		return &StepError{Code: runcontract.CodeInvalidSpec, Message: err.Error()}
	}
	var err error
	if r.remote, err = r.Remote(ctx); err != nil {
		return err
	}
	head, err := r.branch(ctx)
	if err != nil {
		return err
	}
	if r.target, err = r.Target(ctx); err != nil {
		return unreachable(err)
	}
	controller, err := r.reach(ctx)
	if err != nil {
		return err
	}
	if r.Spec.Operation == api.OperationDryRun {
		return r.dryRun(ctx, head, controller)
	}
	if controller == nil || !controller.Available {
		commit, err := r.bring(ctx, head, r.infrastructure())
		if err != nil {
			return err
		}
		r.made(func(o *api.ScaffoldOutput) { o.Commits = &api.ScaffoldCommits{Infrastructure: commit} })
		if controller, err = r.waitForSealedSecrets(ctx, commit); err != nil {
			return err
		}
		head = repository.Head{} // it may be old by now
	} else {
		r.Log.Printf("sealed-secrets is available already (%s): the infrastructure layer needs no pass of its own", controller)
	}
	r.Enter(api.PhaseSeal)
	certificate, err := r.certificate(ctx, controller)
	if err != nil {
		return err
	}
	r.made(func(o *api.ScaffoldOutput) { o.CertificateFingerprint = certificate.Fingerprint })
	commit, err := r.bring(ctx, head, r.complete(certificate))
	if err != nil {
		return err
	}
	r.made(func(o *api.ScaffoldOutput) {
		if o.Commits == nil {
			o.Commits = &api.ScaffoldCommits{}
		}
		o.Commits.Complete = commit
	})
	r.nudge(ctx, commit)
	r.Enter(api.PhasePublishing)
	r.Say(fmt.Sprintf("%s is on branch %s at %s; Flux applies it from there", r.folder, r.Spec.Repository.Branch, short(commit)))
	return nil
}

// nudge makes Flux look now, if it can. It comes by itself otherwise.
func (r *scaffoldRun) nudge(ctx context.Context, revision string) {
	flux, err := r.target.Flux(ctx, r.folder, revision)
	if err == nil {
		err = r.target.Nudge(ctx, flux, r.Now())
	}
	if err != nil {
		r.Log.Printf("warning: %v", err)
	}
}

func short(commit string) string { return commit[:min(len(commit), 12)] }

// branch reads the branch as it is now.
func (r *scaffoldRun) branch(ctx context.Context) (repository.Head, error) {
	head, err := r.remote.Branch(ctx, r.Spec.Repository.Branch)
	if err != nil {
		return head, err
	}
	at := head.Commit
	if at == "" {
		at = "no commit: the repository is empty"
	}
	r.Log.Printf("branch %s is at %s, with %d files below apps and clusters", r.Spec.Repository.Branch, at, len(head.Tree))
	return head, nil
}

// infrastructure is the first pass.
func (r *scaffoldRun) infrastructure() pass {
	return pass{
		name: "infrastructure", subject: "infrastructure layer",
		generate: api.PhaseGenerateInfrastructure, push: api.PhasePushInfrastructure,
		make: func(_ context.Context, base gitopsenv.Base) (gitopsenv.Environment, string, error) {
			e, err := gitopsenv.Infrastructure(base, r.Spec.Inputs)
			return e, "", err
		},
	}
}

// complete is the second pass.
func (r *scaffoldRun) complete(certificate *seal.Certificate) pass {
	return pass{
		name: "complete", subject: "whole environment",
		generate: api.PhaseSeal, push: api.PhasePushComplete,
		make: func(ctx context.Context, base gitopsenv.Base) (gitopsenv.Environment, string, error) {
			e, err := gitopsenv.Complete(base, r.Spec.Inputs, r.sealer(ctx, certificate))
			return e, certificate.Fingerprint, err
		},
	}
}

// sealer seals in one pass, once: what is live is read when it is known which
// secrets there are.
func (r *scaffoldRun) sealer(ctx context.Context, certificate *seal.Certificate) gitopsenv.Sealer {
	return sealerFunc(func(requests []gitopsenv.SealRequest) ([][]byte, error) {
		live := map[seal.Ref]map[string][]byte{}
		for _, request := range requests {
			ref := seal.Ref{Namespace: request.Secret.Namespace, Name: request.Secret.Name}
			values, err := r.target.Secret(ctx, ref.Namespace, ref.Name)
			if err != nil {
				return nil, unreachable(err)
			}
			if values != nil {
				live[ref] = values
			}
		}
		s, err := seal.New(seal.Config{
			Certificate:      certificate,
			DigestKey:        r.DigestKey,
			RegistryPassword: r.RegistryPassword,
			Live:             live,
			Rotation:         r.Spec.Rotation,
			Mask:             r.Hide,
		})
		if err != nil {
			return nil, &StepError{Code: runcontract.CodeSeal, Message: err.Error()}
		}
		return s.Seal(requests)
	})
}

type sealerFunc func([]gitopsenv.SealRequest) ([][]byte, error)

// Seal implements gitopsenv.Sealer.
func (f sealerFunc) Seal(requests []gitopsenv.SealRequest) ([][]byte, error) { return f(requests) }

// generate makes the environment of a pass out of a tree, and verifies it against
// the branch as it is.
func (r *scaffoldRun) generate(ctx context.Context, p pass, head repository.Head, from gitopsenv.Tree) ([]gitopsenv.Change, error) {
	started := r.Now()
	e, certificate, err := p.make(ctx, gitopsenv.Base{Repository: from, Platform: r.Platform})
	if err != nil {
		return nil, generating(err)
	}
	for _, note := range e.Notes {
		r.Log.Printf("note: %s", note)
	}
	err = verify.Verify(verify.Config{
		Base:          gitopsenv.Base{Repository: head.Tree, Platform: r.Platform},
		Inputs:        r.Spec.Inputs,
		Environment:   e,
		Certificate:   certificate,
		AllowDeletion: r.Spec.AllowDeletion,
	})
	if err != nil {
		return nil, r.refusedTree(err)
	}
	changes := gitopsenv.Changes(head.Tree, e.Tree)
	r.Log.Printf("generated and verified in %s: %s", r.Now().Sub(started).Round(time.Millisecond), count(changes))
	return changes, nil
}

// count is changes in words.
func count(changes []gitopsenv.Change) string {
	created, changed, deleted := 0, 0, 0
	for _, c := range changes {
		switch {
		case c.Old == nil:
			created++
		case c.New == nil:
			deleted++
		default:
			changed++
		}
	}
	if len(changes) == 0 {
		return "nothing to change"
	}
	return fmt.Sprintf("%d files to create, %d to change, %d to delete", created, changed, deleted)
}

// dryRun publishes what the second pass would change. Where the controller is not
// there yet, secrets are sealed for a certificate whose key is thrown away.
func (r *scaffoldRun) dryRun(ctx context.Context, head repository.Head, controller *target.Controller) error {
	r.Enter(api.PhaseSeal)
	note := ""
	var certificate *seal.Certificate
	var err error
	if controller != nil && controller.Available {
		certificate, err = r.certificate(ctx, controller)
	} else {
		note = "; sealed-secrets is not on the target yet, so that the secrets in the diff are sealed for nobody"
		certificate, err = r.nobodysCertificate()
	}
	if err != nil {
		return err
	}
	changes, err := r.generate(ctx, r.complete(certificate), head, head.Tree)
	if err != nil {
		return err
	}
	diff := gitopsenv.Diff(changes)
	packed, cut, err := pack(diff)
	if err != nil {
		return err
	}
	if cut {
		note += "; the diff is too long to be published as a whole"
	}
	r.files[runcontract.KeyDiff] = packed
	r.Enter(api.PhasePublishing)
	r.Say("dry run: " + count(changes) + note)
	return nil
}

// pack is a diff in gzip, cut where it would not fit into the outputs Secret.
func pack(diff []byte) (packed []byte, cut bool, err error) {
	for limit := runcontract.MaxDiff; ; limit /= 2 {
		text := diff
		if len(text) > limit {
			text, cut = text[:limit], true
			if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
				text = text[:i+1]
			}
		}
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		if _, err := z.Write(text); err != nil {
			return nil, cut, fmt.Errorf("compress the diff: %w", err)
		}
		if err := z.Close(); err != nil {
			return nil, cut, fmt.Errorf("compress the diff: %w", err)
		}
		if out.Len() <= maxFiles {
			return out.Bytes(), cut, nil
		}
	}
}
