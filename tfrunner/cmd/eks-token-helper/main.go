// Command eks-token-helper is an exec plugin for kubectl and client-go that
// signs in to an EKS cluster with AWS credentials, where there is no AWS CLI.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1beta1"

	"github.com/kubeopera/platform/shared/runner/ekstoken"
)

const usage = `eks-token-helper --region REGION --cluster-name NAME

Prints an ExecCredential with a token for the EKS cluster, for the exec plugin
of a kubeconfig. The AWS credential is found as the AWS CLI finds it:
environment variables, shared configuration files, instance roles.

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintf(os.Stderr, "eks-token-helper: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("eks-token-helper", flag.ContinueOnError)
	region := flags.String("region", "", "AWS region of the cluster")
	cluster := flags.String("cluster-name", "", "name of the EKS cluster")
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = io.WriteString(stderr, usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *region == "" || *cluster == "" || flags.NArg() > 0 {
		flags.Usage()
		return errors.New("--region and --cluster-name are needed, and nothing else")
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(*region))
	if err != nil {
		return fmt.Errorf("read the AWS configuration: %w", err)
	}
	token, err := ekstoken.New(ctx, cfg, *cluster, time.Now())
	if err != nil {
		return err
	}
	credential := clientauthentication.ExecCredential{
		TypeMeta: metav1.TypeMeta{APIVersion: clientauthentication.SchemeGroupVersion.String(), Kind: "ExecCredential"},
		Status:   &clientauthentication.ExecCredentialStatus{Token: token.Value, ExpirationTimestamp: &metav1.Time{Time: token.Expires}},
	}
	if err := json.NewEncoder(stdout).Encode(credential); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return nil
}
