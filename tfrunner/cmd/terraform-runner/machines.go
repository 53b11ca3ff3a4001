package main

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/awsconfig"
	"github.com/kubeopera/platform/shared/runner/runlog"
	"github.com/kubeopera/platform/tfrunner/internal/machines"
)

type machinesConfig struct {
	spec      runcontract.Spec
	files     machines.Files
	account   *account
	publisher runner.Publisher
	log       *runlog.Log
	redactor  *redact.Redactor
}

// runMachines carries out a run on machines that exist. It cannot begin without
// their credential.
func runMachines(ctx context.Context, c machinesConfig) (runcontract.Result, error) {
	fleet, err := machines.NewFleet(machines.FleetConfig{
		Spec: c.spec, Files: c.files, AWS: c.account.config,
		Log: &logger.FunLogger{Out: lines{c.log}, IsCI: true},
	})
	if err != nil {
		return runcontract.Result{}, err
	}
	result := machines.Run(ctx, machines.Config{
		Spec: c.spec, Fleet: fleet, Publisher: c.publisher, Log: c.log, Hide: c.redactor.Add,
	})
	if err := fleet.Close(); err != nil {
		c.log.Printf("warning: %v", err)
	}
	return result, nil
}

// config is the SDK's, with the run's credential.
func (a *account) config(ctx context.Context) (aws.Config, error) {
	return awsconfig.Load(ctx, a.files, a.spec.Region)
}

// lines is a log that text is written to.
type lines struct{ log *runlog.Log }

// Write implements io.Writer.
func (l lines) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		l.log.Printf("%s", strings.TrimRight(line, "\r\n"))
	}
	return len(p), nil
}
