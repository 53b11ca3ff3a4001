package provision

import (
	"context"
	"fmt"
	"strings"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runservice"
)

// Runs that come from an earlier one take its inputs, and resolve the credential
// that these name anew.

// Retry does once more what a run did not achieve, from where the state is.
func (s *Service) Retry(ctx context.Context, id string, caller runservice.Caller) (Started, error) {
	if started, known, err := s.Replay(ctx, caller); known || err != nil {
		return started, err
	}
	run, err := s.FindFailed(ctx, id)
	if err != nil {
		return Started{}, err
	}
	in, err := ReadInputs(run.Inputs)
	if err != nil {
		return Started{}, fmt.Errorf("run %s: %w", id, err)
	}
	switch run.Operation {
	case api.OperationDestroy:
		return s.destroy(ctx, caller, in.Environment, run.ID)
	case api.OperationUnlock:
		return s.unlock(ctx, caller, in, run.ID)
	default: // apply and plan
	}
	if err := s.checkChange(ctx, in); err != nil {
		return Started{}, fmt.Errorf("retry run %s: %w", id, err)
	}
	return s.again(ctx, caller, in, run.ID)
}

// Destroy starts a run that takes down what the environment of a run is made of.
func (s *Service) Destroy(ctx context.Context, id string, caller runservice.Caller) (Started, error) {
	if started, known, err := s.Replay(ctx, caller); known || err != nil {
		return started, err
	}
	run, err := s.Find(ctx, id)
	if err != nil {
		return Started{}, err
	}
	return s.destroy(ctx, caller, run.Environment, "")
}

// destroy takes down what the newest apply has built, by its inputs: they say
// where and with which credential.
func (s *Service) destroy(ctx context.Context, caller runservice.Caller, environment string, retryOf runs.ID) (Started, error) {
	built, err := s.built(ctx, environment)
	if err != nil {
		return Started{}, fmt.Errorf("destroy %s: %w", environment, err)
	}
	if built == nil {
		return Started{}, fmt.Errorf("destroy %s: %w", environment, ErrNothingToDestroy)
	}
	in := built.inputs
	in.Operation = api.OperationDestroy
	return s.again(ctx, caller, in, retryOf)
}

// Unlock starts a run that removes a lock which nobody holds any more from the
// state of a run's environment.
func (s *Service) Unlock(ctx context.Context, id, lockID string, caller runservice.Caller) (Started, error) {
	if started, known, err := s.Replay(ctx, caller); known || err != nil {
		return started, err
	}
	run, err := s.Find(ctx, id)
	if err != nil {
		return Started{}, err
	}
	if !uuidPattern.MatchString(lockID) {
		return Started{}, runservice.Invalid("body.lock_id", "must be the id of the lock, a UUID; lock.id of the run that the lock stopped has it")
	}
	in, err := ReadInputs(run.Inputs)
	if err != nil {
		return Started{}, fmt.Errorf("run %s: %w", id, err)
	}
	if in.Topology == api.TopologyExistingMachines {
		return Started{}, fmt.Errorf("unlock %s: %w", in.Environment, ErrNoState)
	}
	in.LockID = strings.ToLower(lockID)
	return s.unlock(ctx, caller, in, "")
}

// unlock refuses while anything may be at work behind the lock.
func (s *Service) unlock(ctx context.Context, caller runservice.Caller, in Inputs, retryOf runs.ID) (Started, error) {
	pods, err := s.runs.Occupied(ctx, in.Environment)
	if err != nil {
		return Started{}, fmt.Errorf("unlock %s: %w", in.Environment, err)
	}
	if len(pods) > 0 {
		return Started{}, &OccupiedError{Environment: in.Environment, Pods: pods}
	}
	in.Operation = api.OperationUnlock
	return s.again(ctx, caller, in, retryOf)
}

// again queues a run with inputs that passed the rules when they came first.
func (s *Service) again(ctx context.Context, caller runservice.Caller, in Inputs, retryOf runs.ID) (Started, error) {
	if in.Operation != api.OperationUnlock {
		in.LockID = ""
	}
	c, err := s.resolve(ctx, in)
	if err != nil {
		return Started{}, err
	}
	if in.Operation == api.OperationApply && in.KubeconfigAuth == api.KubeconfigAuthEmbedded && c.kind != cloudcred.KindAccessKey {
		return Started{}, &runservice.CredentialError{ID: in.CredentialID, Reason: fmt.Sprintf("a credential of kind %s, as it was: the kubeconfig is to hold it", cloudcred.KindAccessKey)}
	}
	return s.begin(ctx, caller, in, c, retryOf)
}
