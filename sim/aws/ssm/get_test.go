package ssm_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/sim/aws/ssm"
)

func TestSecureStringIsReadableOnRequestOnly(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.put(t, func(p *sdk.PutParameterInput) { p.Value = new("canary") })
	f.put(t, func(p *sdk.PutParameterInput) {
		p.Name, p.Value, p.Type = new("/kubeopera/e/plain"), new("plain"), types.ParameterTypeString
	})
	for _, decrypt := range []bool{false, true} {
		one, err := f.GetParameter(t.Context(), &sdk.GetParameterInput{Name: new(name), WithDecryption: &decrypt})
		if err != nil {
			t.Fatal(err)
		}
		many, err := f.GetParameters(t.Context(), &sdk.GetParametersInput{Names: []string{name, "/kubeopera/e/plain"}, WithDecryption: &decrypt})
		if err != nil {
			t.Fatal(err)
		}
		path, err := f.GetParametersByPath(t.Context(), &sdk.GetParametersByPathInput{Path: new("/kubeopera/e"), WithDecryption: &decrypt})
		if err != nil {
			t.Fatal(err)
		}
		history, err := f.GetParameterHistory(t.Context(), &sdk.GetParameterHistoryInput{Name: new(name), WithDecryption: &decrypt})
		if err != nil {
			t.Fatal(err)
		}
		for call, value := range map[string]string{
			"GetParameter": *one.Parameter.Value, "GetParameters": *many.Parameters[0].Value,
			"GetParametersByPath": *path.Parameters[0].Value, "GetParameterHistory": *history.Parameters[0].Value,
		} {
			if (value == "canary") != decrypt || value == "" {
				t.Errorf("%s with decryption %t: %q", call, decrypt, value)
			}
		}
		if *many.Parameters[1].Value != "plain" {
			t.Errorf("plain text with decryption %t: %q", decrypt, *many.Parameters[1].Value)
		}
	}
}

func TestGetParameter(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.put(t, nil)
	const arn = "arn:aws:ssm:eu-central-1:123456789012:parameter" + name
	want := types.Parameter{
		Name: new(name), ARN: new(arn), Type: types.ParameterTypeSecureString, Value: new("PENDING"), Version: 1,
		DataType: new("text"), LastModifiedDate: new(start),
	}
	for _, reference := range []string{name, arn} {
		got, err := f.get(t.Context(), reference)
		if err != nil {
			t.Fatal(err)
		}
		got.LastModifiedDate = new(got.LastModifiedDate.UTC())
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(types.Parameter{}), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".noSmithyDocumentSerde" }, cmp.Ignore())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reference, diff)
		}
	}
	for reference, want := range map[string]string{
		"/none": "ParameterNotFound", "a b": "ValidationException", name + ":": "ValidationException", name + ":1:2": "ValidationException",
		strings.Replace(arn, "eu-central-1", "us-east-1", 1): "ParameterNotFound", "arn:aws:s3:::x": "ValidationException",
	} {
		if _, err := f.get(t.Context(), reference); code(t, err) != want {
			t.Errorf("%s: %v, want %s", reference, err, want)
		}
	}
	if _, err := f.in(t, "us-east-1").GetParameter(t.Context(), &sdk.GetParameterInput{Name: new(name)}); code(t, err) != "ParameterNotFound" {
		t.Errorf("another region: %v", err)
	}
}

func TestGetParameters(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.put(t, nil)
	out, err := f.GetParameters(t.Context(), &sdk.GetParametersInput{Names: []string{"/none", name + ":1", "a b", "/aws/service/x"}, WithDecryption: new(true)})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out.InvalidParameters)
	if diff := cmp.Diff([]string{"/aws/service/x", "/none", "a b"}, out.InvalidParameters); diff != "" {
		t.Errorf("invalid (-want +got):\n%s", diff)
	}
	if len(out.Parameters) != 1 || *out.Parameters[0].Value != "PENDING" {
		t.Errorf("valid: %+v", out.Parameters)
	}
	if _, err := f.GetParameters(t.Context(), &sdk.GetParametersInput{Names: slices.Repeat([]string{name}, 11)}); code(t, err) != "ValidationException" {
		t.Errorf("eleven names: %v", err)
	}
}

// elsewhere answers as the emulator does, for public parameters.
func elsewhere(t *testing.T) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Name  string
			Names []string
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &in) != nil {
			t.Errorf("body: %q, %v", body, err)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		switch target := r.Header.Get("X-Amz-Target"); target {
		case "AmazonSSM.GetParameter":
			_, _ = io.WriteString(w, `{"Parameter": {"Name": "`+in.Name+`", "Value": "ami-1"}}`)
		case "AmazonSSM.GetParameters":
			_, _ = io.WriteString(w, `{"Parameters": [{"Name": "`+in.Names[0]+`", "Value": "ami-1"}], "InvalidParameters": ["`+in.Names[1]+`"]}`)
		default:
			_, _ = io.WriteString(w, `{"Commands": [{"CommandId": "1"}]}`)
		}
	})
}

func TestPublicParametersComeFromElsewhere(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *ssm.Config) { c.Fallback = elsewhere(t) })
	f.put(t, nil)
	if p, err := f.get(t.Context(), "/aws/service/ami"); err != nil || *p.Value != "ami-1" {
		t.Errorf("one: %+v, %v", p, err)
	}
	out, err := f.GetParameters(t.Context(), &sdk.GetParametersInput{Names: []string{"/aws/service/ami", name, "/aws/service/none"}, WithDecryption: new(true)})
	if err != nil || len(out.Parameters) != 2 || !slices.Equal(out.InvalidParameters, []string{"/aws/service/none"}) {
		t.Errorf("many: %+v, %v", out, err)
	}
	if out, err := f.ListCommands(t.Context(), nil); err != nil || len(out.Commands) != 1 {
		t.Errorf("another operation: %+v, %v", out, err)
	}
	if _, err := setup(t, nil).ListCommands(t.Context(), nil); code(t, err) != "UnknownOperationException" {
		t.Errorf("another operation without a fallback: %v", err)
	}
	if _, err := f.UnlabelParameterVersion(t.Context(), &sdk.UnlabelParameterVersionInput{Name: new(name), ParameterVersion: new(int64(1)), Labels: []string{"x"}}); code(t, err) != "UnknownOperationException" {
		t.Errorf("an operation of Parameter Store that is missing: %v", err)
	}
}

func TestThrottling(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *ssm.Config) { c.Limits = ssm.Limits{} })
	count := func(call func(context.Context) error) int {
		t.Helper()
		for n := range 100 {
			err := call(t.Context())
			if code(t, err) == "ThrottlingException" {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return 100
	}
	puts := func(ctx context.Context) error {
		_, err := f.PutParameter(ctx, input(func(p *sdk.PutParameterInput) { p.Overwrite = new(true) }))
		return err
	}
	gets := func(ctx context.Context) error {
		_, err := f.get(ctx, name)
		return err
	}
	other := f.in(t, "us-east-1")
	elsewhere := func(ctx context.Context) error {
		_, err := other.PutParameter(ctx, input(func(p *sdk.PutParameterInput) { p.Overwrite = new(true) }))
		return err
	}
	if n := count(puts); n != 3 {
		t.Errorf("%d puts", n)
	}
	if n := count(gets); n != 40 {
		t.Errorf("%d gets", n)
	}
	if n := count(elsewhere); n != 3 {
		t.Errorf("%d puts in another region", n)
	}
	f.clock.advance(400 * time.Millisecond)
	if n := count(puts); n != 1 {
		t.Errorf("%d puts after 0.4 s", n)
	}
	if n := count(gets); n != 16 {
		t.Errorf("%d gets after 0.4 s", n)
	}
	f.service.SetLimits(ssm.Limits{Put: 5, Get: ssm.Unlimited})
	if n, m := count(puts), count(gets); n != 5 || m != 100 {
		t.Errorf("%d puts and %d gets with other limits", n, m)
	}
}

// refuser allows what it lists.
type refuser []ssm.Access

func (r refuser) Authorize(_ context.Context, a ssm.Access) (bool, error) {
	return slices.Contains(r, a), nil
}

func TestAuthorizerIsAskedForEachParameter(t *testing.T) {
	t.Parallel()
	access := func(action, resource string) ssm.Access {
		return ssm.Access{PrincipalARN: userARN, Action: action, Resource: resource}
	}
	const arn = "arn:aws:ssm:eu-central-1:123456789012:parameter"
	f := setup(t, func(c *ssm.Config) {
		c.Authorizer = refuser{access("ssm:GetParameters", arn+name), access("ssm:GetParametersByPath", arn+"/kubeopera"), access("ssm:DescribeParameters", "*"), access("ssm:PutParameter", arn+"/tagged")}
	})
	if err := f.service.Put(region, name, "x"); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	calls := map[string]func() error{
		"GetParameters": func() error {
			_, err := f.GetParameters(ctx, &sdk.GetParametersInput{Names: []string{name}})
			return err
		},
		"GetParametersByPath": func() error {
			_, err := f.GetParametersByPath(ctx, &sdk.GetParametersByPathInput{Path: new("/kubeopera"), Recursive: new(true)})
			return err
		},
		"DescribeParameters": func() error { _, err := f.DescribeParameters(ctx, nil); return err },
	}
	for name, call := range calls {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	calls = map[string]func() error{
		"GetParameters of another too": func() error {
			_, err := f.GetParameters(ctx, &sdk.GetParametersInput{Names: []string{name, "/kubeopera/e/admin_kubeconfig"}})
			return err
		},
		"GetParametersByPath above": func() error {
			_, err := f.GetParametersByPath(ctx, &sdk.GetParametersByPathInput{Path: new("/")})
			return err
		},
		"GetParameter": func() error { _, err := f.get(ctx, name); return err },
		"GetParameterHistory": func() error {
			_, err := f.GetParameterHistory(ctx, &sdk.GetParameterHistoryInput{Name: new(name)})
			return err
		},
		"PutParameter": func() error {
			_, err := f.PutParameter(ctx, input(func(p *sdk.PutParameterInput) { p.Overwrite = new(true) }))
			return err
		},
		"PutParameter with tags": func() error {
			_, err := f.PutParameter(ctx, input(func(p *sdk.PutParameterInput) {
				p.Name, p.Tags = new("/tagged"), []types.Tag{{Key: new("a"), Value: new("b")}}
			}))
			return err
		},
		"DeleteParameters": func() error {
			_, err := f.DeleteParameters(ctx, &sdk.DeleteParametersInput{Names: []string{name}})
			return err
		},
	}
	for name, call := range calls {
		if err := call(); code(t, err) != "AccessDeniedException" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
