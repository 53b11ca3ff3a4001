package scaffold

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/kubeopera/platform/scaffoldrunner/internal/target"
	"github.com/kubeopera/platform/scaffoldrunner/seal"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// The first question to the cluster is asked a few times: it comes before anything
// is pushed, and tells what is wrong with the kubeconfig.
const (
	reachAttempts = 5
	reachPause    = 3 * time.Second
)

// reach finds the controller, if it is there; an error if the cluster is not.
func (r *scaffoldRun) reach(ctx context.Context) (*target.Controller, error) {
	for attempt := 1; ; attempt++ {
		controller, err := r.target.Controller(ctx)
		if err == nil {
			return controller, nil
		}
		if final := unreachable(err); attempt >= reachAttempts || final.Code != runcontract.CodeTargetUnreachable || target.Refused(err) {
			return nil, final
		}
		r.Log.Printf("the target, attempt %d of %d: %v", attempt, reachAttempts, err)
		if err := sleep(ctx, reachPause); err != nil {
			return nil, err
		}
	}
}

// waitForSealedSecrets waits until the controller is Available. What is in its way
// shows at once; the wait ends early only if Flux has given up on the commit.
func (r *scaffoldRun) waitForSealedSecrets(ctx context.Context, commit string) (*target.Controller, error) {
	r.Enter(api.PhaseWaitingForSealedSecrets)
	limit := time.Duration(r.Spec.SealedSecretsTimeoutSeconds) * time.Second
	late := fmt.Errorf("not within %s", limit)
	waiting, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	nudged, givenUp := false, ""
	code := runcontract.CodeSealedSecretsMissing
	for {
		controller, err := r.target.Controller(ctx)
		switch {
		case err == nil && controller != nil && controller.Available:
			r.waitingFor = ""
			r.Log.Printf("sealed-secrets is available: %s", controller)
			return controller, nil
		case err != nil && unreachable(err).Code != runcontract.CodeTargetUnreachable:
			return nil, unreachable(err)
		}
		flux, fluxErr := r.target.Flux(ctx, r.folder, commit)
		if fluxErr == nil && !nudged {
			nudged = true
			if err := r.target.Nudge(ctx, flux, r.Now()); err != nil {
				r.Log.Printf("warning: %v", err)
			}
		}
		if ctx.Err() == nil { // else it is only that which went wrong
			code = r.sayWhatIsMissing(controller, flux, errors.Join(err, fluxErr))
			if flux.GivenUp != "" && flux.GivenUp == givenUp { // it was no passing state
				return nil, &StepError{
					Code:    runcontract.CodeFluxFailed,
					Message: "Flux has given up: " + flux.GivenUp + ": put that right in the repository or on the target, then start the run again",
				}
			}
			givenUp = flux.GivenUp
		}
		err = sleep(waiting, r.poll())
		switch {
		case err == nil:
		case ctx.Err() == nil && errors.Is(context.Cause(waiting), late):
			return nil, &StepError{Code: code, Message: fmt.Sprintf(
				"sealed-secrets was not available within %s; the last that was known: %s; put that right on the target or in the repository, then start the run again, which goes on from what is pushed",
				limit, r.waitingFor)}
		default:
			return nil, err
		}
	}
}

// sayWhatIsMissing tells what the wait is for, and which failure it is if it stays so.
func (r *scaffoldRun) sayWhatIsMissing(controller *target.Controller, flux target.Flux, err error) runcontract.ErrorCode {
	code := runcontract.CodeSealedSecretsMissing
	var reasons []string
	switch {
	case err != nil:
		code = runcontract.CodeTargetUnreachable
		reasons = append(reasons, err.Error())
	case flux.Missing != "":
		code = runcontract.CodeFluxMissing
		reasons = append(reasons, fmt.Sprintf("%s: bootstrap it there with branch %s and path %s", flux.Missing, r.Spec.Repository.Branch, r.folder))
	}
	reasons = append(reasons, flux.Troubles...)
	switch {
	case controller != nil:
		reasons = append(reasons, controller.String()+": "+controller.Reason)
	case len(reasons) == 0:
		reasons = append(reasons, "its Deployment is not there yet")
	}
	r.waitingFor = strings.Join(reasons, "; ")
	if r.Say("waiting for sealed-secrets: " + r.waitingFor) {
		r.Log.Printf("waiting: %s", r.waitingFor)
	}
	r.Report()
	return code
}

// certificate is that of the controller, or the caller's where that cannot be had.
func (r *scaffoldRun) certificate(ctx context.Context, controller *target.Controller) (*seal.Certificate, error) {
	var certificate *seal.Certificate
	_, err := r.target.Certificate(ctx, controller, func(data []byte) (passing bool, err error) {
		certificate, err = seal.ParseCertificate(data, r.Now())
		return errors.Is(err, seal.ErrNoCertificate), err
	}, r.Log.Printf)
	if err == nil {
		r.Log.Printf("certificate of %s: SHA-256 %s, valid until %s", controller, certificate.Fingerprint, certificate.NotAfter.UTC().Format(time.DateOnly))
		return certificate, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	message := fmt.Sprintf("the certificate of %s cannot be used: %v", controller, err)
	if r.Spec.Target.Certificate == "" {
		return nil, &StepError{Code: runcontract.CodeCertificate, Message: message + ": put that right, or give the certificate as target.certificate"}
	}
	r.Log.Printf("warning: %s; using the one that came with the request", message)
	certificate, err = seal.ParseCertificate([]byte(r.Spec.Target.Certificate), r.Now())
	if err != nil {
		return nil, &StepError{Code: runcontract.CodeCertificate, Message: message + "; nor can the one that came with the request: " + err.Error()}
	}
	return certificate, nil
}

// nobodysCertificate is one whose key is thrown away.
func (r *scaffoldRun) nobodysCertificate() (*seal.Certificate, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: r.Now().Add(-time.Minute), NotAfter: r.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return seal.ParseCertificate(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), r.Now())
}
