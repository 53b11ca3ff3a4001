// Package ekstoken makes the tokens by which EKS API servers know AWS
// principals: a signed request to STS that the API server sends for itself.
package ekstoken

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	prefix = "k8s-aws-v1."
	// clusterHeader binds a token to one cluster; it is part of the signature.
	clusterHeader = "X-K8s-Aws-Id"
	// signedSeconds is how long STS may be asked, as all makers of tokens have it.
	// The API server takes the token for longer.
	signedSeconds = "60"
	// lifetime is for how long API servers take a token, less a minute for clocks
	// that differ.
	lifetime = 14 * time.Minute
	// maxLength is what API servers take at most, in bytes. Only a very long
	// session token makes a longer one.
	maxLength = 4096
)

// Token is a bearer token.
type Token struct {
	Value   string
	Expires time.Time
}

// New makes a token for a cluster with the configuration's credential and region.
func New(ctx context.Context, cfg aws.Config, cluster string, now time.Time) (Token, error) {
	client := sts.NewPresignClient(sts.NewFromConfig(cfg), func(o *sts.PresignOptions) {
		o.Presigner = presigner{signer: v4.NewSigner(), now: now}
	})
	signed, err := client.PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}, func(o *sts.PresignOptions) {
		o.ClientOptions = append(o.ClientOptions, sts.WithAPIOptions(
			smithyhttp.SetHeaderValue(clusterHeader, cluster),
			smithyhttp.SetHeaderValue("X-Amz-Expires", signedSeconds),
		))
	})
	if err != nil {
		return Token{}, fmt.Errorf("sign a token for the cluster %s: %w", cluster, err)
	}
	value := prefix + base64.RawURLEncoding.EncodeToString([]byte(signed.URL))
	if len(value) > maxLength {
		return Token{}, fmt.Errorf("sign a token for the cluster %s: it would have %d bytes, API servers take %d: the credential's session token is too long", cluster, len(value), maxLength)
	}
	return Token{Value: value, Expires: now.Add(lifetime)}, nil
}

// presigner signs as of a given time.
type presigner struct {
	signer *v4.Signer
	now    time.Time
}

// PresignHTTP implements sts.HTTPPresignerV4.
func (p presigner) PresignHTTP(
	ctx context.Context, credentials aws.Credentials, r *http.Request, payloadHash, service, region string, _ time.Time, options ...func(*v4.SignerOptions),
) (url string, header http.Header, err error) {
	return p.signer.PresignHTTP(ctx, credentials, r, payloadHash, service, region, p.now, options...)
}
