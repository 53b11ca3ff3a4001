package ssm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

func TestPutParameter(t *testing.T) {
	t.Parallel()
	type in = *sdk.PutParameterInput
	overwrite := func(change func(in)) func(in) {
		return func(p in) {
			p.Overwrite = new(true)
			change(p)
		}
	}
	advanced := func(p in) { p.Tier = types.ParameterTierAdvanced }
	tests := []struct {
		name   string
		before func(in) // a parameter that is there
		change func(in)
		want   string
	}{
		{name: "new", change: func(in) {}, want: "ok"},
		{name: "without a type", change: func(p in) { p.Type = "" }, want: "ValidationException"},
		{name: "unknown type", change: func(p in) { p.Type = "Secret" }, want: "ValidationException"},
		{name: "empty value", change: func(p in) { p.Value = new("") }, want: "ValidationException"},
		{name: "largest standard value", change: func(p in) { p.Value = new(strings.Repeat("x", 4096)) }, want: "ok"},
		{name: "too large for standard", change: func(p in) { p.Value = new(strings.Repeat("x", 4097)) }, want: "ValidationException"},
		{name: "sizes are in bytes", change: func(p in) { p.Value = new(strings.Repeat("ä", 2049)) }, want: "ValidationException"},
		{name: "largest advanced value", change: func(p in) { p.Value, p.Tier = new(strings.Repeat("x", 8192)), types.ParameterTierAdvanced }, want: "ok"},
		{name: "too large for advanced", change: func(p in) { p.Value, p.Tier = new(strings.Repeat("x", 8193)), types.ParameterTierAdvanced }, want: "ValidationException"},
		{name: "exists", before: func(in) {}, change: func(in) {}, want: "ParameterAlreadyExists"},
		{name: "overwrite", before: func(in) {}, change: overwrite(func(in) {}), want: "ok"},
		{name: "overwrite what is not there", change: overwrite(func(in) {}), want: "ok"},
		{name: "overwrite without a type", before: func(in) {}, change: overwrite(func(p in) { p.Type = "" }), want: "ok"},
		{name: "overwrite with another type", before: func(in) {}, change: overwrite(func(p in) { p.Type = types.ParameterTypeString }), want: "HierarchyTypeMismatchException"},
		{name: "upgrade", before: func(in) {}, change: overwrite(advanced), want: "ok"},
		{name: "downgrade", before: advanced, change: overwrite(func(p in) { p.Tier = types.ParameterTierStandard }), want: "ValidationException"},
		{name: "the default tier is standard", before: advanced, change: overwrite(func(in) {}), want: "ValidationException"},
		{name: "intelligent stays advanced", before: advanced, change: overwrite(func(p in) { p.Tier = types.ParameterTierIntelligentTiering }), want: "ok"},
		{name: "tags", change: func(p in) { p.Tags = []types.Tag{{Key: new("a"), Value: new("b")}} }, want: "ok"},
		{name: "tags with overwrite", before: func(in) {}, change: overwrite(func(p in) { p.Tags = []types.Tag{{Key: new("a"), Value: new("b")}} }), want: "ValidationException"},
		{name: "reserved tag", change: func(p in) { p.Tags = []types.Tag{{Key: new("aws:a"), Value: new("b")}} }, want: "ValidationException"},
		{name: "pattern", change: func(p in) { p.AllowedPattern = new("PEND[A-Z]*") }, want: "ok"},
		{name: "pattern fits a part only", change: func(p in) { p.AllowedPattern = new("PEND") }, want: "ParameterPatternMismatchException"},
		{name: "no pattern", change: func(p in) { p.AllowedPattern = new("(") }, want: "InvalidAllowedPatternException"},
		{name: "pattern of before", before: func(p in) { p.AllowedPattern = new("PENDING|x") }, change: overwrite(func(p in) { p.Value = new("y") }), want: "ParameterPatternMismatchException"},
		{name: "image", change: func(p in) { p.Type, p.DataType = types.ParameterTypeString, new("aws:ec2:image") }, want: "ok"},
		{name: "unknown data type", change: func(p in) { p.DataType = new("Text") }, want: "ValidationException"},
		{name: "key of a plain text", change: func(p in) { p.Type, p.KeyId = types.ParameterTypeString, new("alias/x") }, want: "ValidationException"},
		{name: "relative path", change: func(p in) { p.Name = new("a/b") }, want: "ValidationException"},
		{name: "reserved name", change: func(p in) { p.Name = new("/aws/x") }, want: "AccessDeniedException"},
		{name: "reserved prefix", change: func(p in) { p.Name = new("SsmX") }, want: "ValidationException"},
		{name: "bad character", change: func(p in) { p.Name = new("/a b") }, want: "ValidationException"},
		{name: "empty level", change: func(p in) { p.Name = new("/a//b") }, want: "ValidationException"},
		{name: "ends with a slash", change: func(p in) { p.Name = new("/a/") }, want: "ValidationException"},
		{name: "fifteen levels", change: func(p in) { p.Name = new(strings.Repeat("/x", 15)) }, want: "ok"},
		{name: "sixteen levels", change: func(p in) { p.Name = new(strings.Repeat("/x", 16)) }, want: "HierarchyLevelLimitExceededException"},
		{name: "long name", change: func(p in) { p.Name = new(strings.Repeat("x", 1012)) }, want: "ValidationException"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil)
			if tt.before != nil {
				f.put(t, tt.before)
			}
			_, err := f.PutParameter(t.Context(), input(tt.change))
			if got := code(t, err); got != tt.want {
				t.Errorf("got %s, want %s: %v", got, tt.want, err)
			}
		})
	}
}

// The SDK has a type for each error that a caller may want to know.
func TestErrorsHaveTheSDKsTypes(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.put(t, nil)
	_, err := f.PutParameter(t.Context(), input(nil))
	if _, ok := errors.AsType[*types.ParameterAlreadyExists](err); !ok {
		t.Errorf("exists: %v", err)
	}
	_, err = f.get(t.Context(), "/none")
	if _, ok := errors.AsType[*types.ParameterNotFound](err); !ok {
		t.Errorf("none: %v", err)
	}
}

func TestErrorsDoNotTellTheValue(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	for _, change := range []func(*sdk.PutParameterInput){
		func(p *sdk.PutParameterInput) { p.AllowedPattern = new("x") },
		func(p *sdk.PutParameterInput) { p.Value = new(strings.Repeat(*p.Value, 1000)) },
		func(p *sdk.PutParameterInput) { p.Type = "x" },
	} {
		if _, err := f.PutParameter(t.Context(), input(func(p *sdk.PutParameterInput) {
			p.Value = new("canary")
			change(p)
		})); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("got %v", err)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	for i := range 102 {
		out := f.put(t, func(p *sdk.PutParameterInput) { p.Value, p.Overwrite = new(fmt.Sprint("value-", i+1)), new(true) })
		if out.Version != int64(i+1) || out.Tier != types.ParameterTierStandard {
			t.Fatalf("version %d, tier %s", out.Version, out.Tier)
		}
	}
	var versions []int64
	pages := sdk.NewGetParameterHistoryPaginator(f, &sdk.GetParameterHistoryInput{Name: new(name), WithDecryption: new(true), MaxResults: new(int32(30))})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Parameters {
			versions = append(versions, v.Version)
			if *v.Value != fmt.Sprint("value-", v.Version) || *v.LastModifiedUser != userARN || *v.KeyId != "alias/aws/ssm" {
				t.Errorf("version: %+v", v)
			}
		}
	}
	if len(versions) != 100 || versions[0] != 3 || versions[99] != 102 {
		t.Errorf("history: %v", versions)
	}
	if _, err := f.LabelParameterVersion(t.Context(), &sdk.LabelParameterVersionInput{Name: new(name), ParameterVersion: new(int64(3)), Labels: []string{"good", "aws-x", "1x"}}); err != nil {
		t.Fatal(err)
	}
	for selector, want := range map[string]string{"": "value-102", ":50": "value-50", ":good": "value-3"} {
		p, err := f.get(t.Context(), name+selector)
		if err != nil || *p.Value != want || selector != "" && *p.Selector != selector {
			t.Errorf("%q: %+v, %v", selector, p, err)
		}
	}
	for _, selector := range []string{":2", ":none", ":103"} {
		if _, err := f.get(t.Context(), name+selector); code(t, err) != "ParameterVersionNotFound" {
			t.Errorf("%q: %v", selector, err)
		}
	}
	// The oldest version would be lost, but somebody has labelled it.
	if _, err := f.PutParameter(t.Context(), input(func(p *sdk.PutParameterInput) { p.Overwrite = new(true) })); code(t, err) != "ParameterMaxVersionLimitExceeded" {
		t.Errorf("overwrite: %v", err)
	}
}
