package ssm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/google/go-cmp/cmp"
)

// seeded has parameters under two paths and one without a path.
func seeded(t *testing.T) *fixture {
	t.Helper()
	f := setup(t, nil)
	for _, name := range []string{"/a/one", "/a/two", "/a/b/three", "/ab/four", "plain"} {
		f.put(t, func(p *sdk.PutParameterInput) {
			p.Name = &name
			if name == "/a/two" {
				p.Type, p.Tags = types.ParameterTypeString, []types.Tag{{Key: new("env"), Value: new("e")}}
			}
		})
	}
	return f
}

func TestGetParametersByPath(t *testing.T) {
	t.Parallel()
	f := seeded(t)
	tests := []struct {
		path      string
		recursive bool
		filters   []types.ParameterStringFilter
		want      []string
	}{
		{path: "/a", want: []string{"/a/one", "/a/two"}},
		{path: "/a/", want: []string{"/a/one", "/a/two"}},
		{path: "/a", recursive: true, want: []string{"/a/b/three", "/a/one", "/a/two"}},
		{path: "/", want: []string{"plain"}},
		{path: "/", recursive: true, want: []string{"/a/b/three", "/a/one", "/a/two", "/ab/four", "plain"}},
		{path: "/none"},
		{path: "/a", filters: []types.ParameterStringFilter{{Key: new("Type"), Values: []string{"String"}}}, want: []string{"/a/two"}},
		{path: "/a", filters: []types.ParameterStringFilter{{Key: new("KeyId"), Option: new("BeginsWith"), Values: []string{"alias/"}}}, want: []string{"/a/one"}},
	}
	for _, tt := range tests {
		var got []string
		pages := sdk.NewGetParametersByPathPaginator(f, &sdk.GetParametersByPathInput{Path: &tt.path, Recursive: &tt.recursive, ParameterFilters: tt.filters, MaxResults: new(int32(2))})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range page.Parameters {
				got = append(got, *p.Name)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s, recursive %t (-want +got):\n%s", tt.path, tt.recursive, diff)
		}
	}
	for want, in := range map[string]*sdk.GetParametersByPathInput{
		"ValidationException": {Path: new("a")},
		"InvalidNextToken":    {Path: new("/a"), NextToken: new("?")},
		"InvalidFilterKey":    {Path: new("/a"), ParameterFilters: []types.ParameterStringFilter{{Key: new("Name"), Values: []string{"x"}}}},
	} {
		if _, err := f.GetParametersByPath(t.Context(), in); code(t, err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := f.GetParametersByPath(t.Context(), &sdk.GetParametersByPathInput{Path: new("/a"), MaxResults: new(int32(11))}); code(t, err) != "ValidationException" {
		t.Errorf("eleven results: %v", err)
	}
}

func TestPagesStayRightWhenTheListChanges(t *testing.T) {
	t.Parallel()
	f := seeded(t)
	first, err := f.GetParametersByPath(t.Context(), &sdk.GetParametersByPathInput{Path: new("/a"), MaxResults: new(int32(1))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.DeleteParameter(t.Context(), &sdk.DeleteParameterInput{Name: new("/a/one")}); err != nil {
		t.Fatal(err)
	}
	second, err := f.GetParametersByPath(t.Context(), &sdk.GetParametersByPathInput{Path: new("/a"), NextToken: first.NextToken})
	if err != nil || len(second.Parameters) != 1 || *second.Parameters[0].Name != "/a/two" {
		t.Errorf("second page: %+v, %v", second, err)
	}
}

func TestDescribeParameters(t *testing.T) {
	t.Parallel()
	f := seeded(t)
	filter := func(key, option string, values ...string) types.ParameterStringFilter {
		out := types.ParameterStringFilter{Key: &key, Values: values}
		if option != "" {
			out.Option = &option
		}
		return out
	}
	tests := []struct {
		filters []types.ParameterStringFilter
		older   []types.ParametersFilter
		want    []string
	}{
		{want: []string{"/a/b/three", "/a/one", "/a/two", "/ab/four", "plain"}},
		{filters: []types.ParameterStringFilter{filter("Name", "", "/a/one")}, want: []string{"/a/one"}},
		{filters: []types.ParameterStringFilter{filter("Name", "BeginsWith", "/ab", "pl")}, want: []string{"/ab/four", "plain"}},
		{filters: []types.ParameterStringFilter{filter("Name", "Contains", "r")}, want: []string{"/a/b/three", "/ab/four"}},
		{filters: []types.ParameterStringFilter{filter("Path", "", "/a")}, want: []string{"/a/one", "/a/two"}},
		{filters: []types.ParameterStringFilter{filter("Path", "Recursive", "/a"), filter("Type", "", "SecureString")}, want: []string{"/a/b/three", "/a/one"}},
		{filters: []types.ParameterStringFilter{filter("Tier", "Equals", "Advanced")}},
		{filters: []types.ParameterStringFilter{filter("tag:env", "Equals", "e")}, want: []string{"/a/two"}},
		{filters: []types.ParameterStringFilter{filter("tag:env", "", "x")}},
		{older: []types.ParametersFilter{{Key: types.ParametersFilterKeyName, Values: []string{"/a/"}}}, want: []string{"/a/b/three", "/a/one", "/a/two"}},
	}
	for i, tt := range tests {
		var got []string
		pages := sdk.NewDescribeParametersPaginator(f, &sdk.DescribeParametersInput{ParameterFilters: tt.filters, Filters: tt.older, MaxResults: new(int32(2))})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range page.Parameters {
				got = append(got, *p.Name)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%d (-want +got):\n%s", i, diff)
		}
	}
	for want, bad := range map[string]types.ParameterStringFilter{
		"InvalidFilterKey": filter("Nom", "", "x"), "InvalidFilterOption": filter("Type", "Contains", "x"), "InvalidFilterValue": filter("Name", ""),
	} {
		if _, err := f.DescribeParameters(t.Context(), &sdk.DescribeParametersInput{ParameterFilters: []types.ParameterStringFilter{bad}}); code(t, err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.put(t, func(p *sdk.PutParameterInput) { p.Tags = []types.Tag{{Key: new("a"), Value: new("1")}} })
	tags := func() []string {
		t.Helper()
		out, err := f.ListTagsForResource(t.Context(), &sdk.ListTagsForResourceInput{ResourceType: types.ResourceTypeForTaggingParameter, ResourceId: new(name)})
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, tag := range out.TagList {
			list = append(list, *tag.Key+"="+*tag.Value)
		}
		return list
	}
	add := func(id string, tags ...types.Tag) error {
		_, err := f.AddTagsToResource(t.Context(), &sdk.AddTagsToResourceInput{ResourceType: types.ResourceTypeForTaggingParameter, ResourceId: &id, Tags: tags})
		return err
	}
	if err := add(name, types.Tag{Key: new("b"), Value: new("2")}, types.Tag{Key: new("a"), Value: new("3")}); err != nil {
		t.Fatal(err)
	}
	if got := tags(); !slices.Equal(got, []string{"a=3", "b=2"}) {
		t.Errorf("tags: %v", got)
	}
	if _, err := f.RemoveTagsFromResource(t.Context(), &sdk.RemoveTagsFromResourceInput{ResourceType: types.ResourceTypeForTaggingParameter, ResourceId: new(name), TagKeys: []string{"a", "c"}}); err != nil {
		t.Fatal(err)
	}
	if got := tags(); !slices.Equal(got, []string{"b=2"}) {
		t.Errorf("tags: %v", got)
	}
	if err := add("/none", types.Tag{Key: new("a"), Value: new("")}); code(t, err) != "InvalidResourceId" {
		t.Errorf("no parameter: %v", err)
	}
	var many []types.Tag
	for i := range 50 {
		many = append(many, types.Tag{Key: new(fmt.Sprint(i)), Value: new("")})
	}
	if err := add(name, many...); code(t, err) != "TooManyTagsError" {
		t.Errorf("51 tags: %v", err)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	f := seeded(t)
	if _, err := f.DeleteParameter(t.Context(), &sdk.DeleteParameterInput{Name: new("/none")}); code(t, err) != "ParameterNotFound" {
		t.Errorf("none: %v", err)
	}
	out, err := f.DeleteParameters(t.Context(), &sdk.DeleteParametersInput{Names: []string{"/a/one", "/none", "plain"}})
	if err != nil || !slices.Equal(out.DeletedParameters, []string{"/a/one", "plain"}) || !slices.Equal(out.InvalidParameters, []string{"/none"}) {
		t.Errorf("deleted: %+v, %v", out, err)
	}
	if diff := cmp.Diff([]string{"/a/b/three", "/a/two", "/ab/four"}, f.service.Names(region, "/")); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	// What is made anew begins at version 1.
	if out := f.put(t, func(p *sdk.PutParameterInput) { p.Name = new("/a/one") }); out.Version != 1 {
		t.Errorf("version %d", out.Version)
	}
}

func TestInspection(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.put(t, func(p *sdk.PutParameterInput) {
		p.Tier, p.Tags = types.ParameterTierAdvanced, []types.Tag{{Key: new("a"), Value: new("b")}}
	})
	for _, name := range []string{name, "/new"} {
		if err := f.service.Put(region, name, "by the simulator"); err != nil {
			t.Fatal(err)
		}
	}
	got, ok := f.service.Get(region, name)
	if !ok || got.Value != "by the simulator" || got.Version != 2 || got.Type != "SecureString" || got.Tier != "Advanced" || got.Tags["a"] != "b" {
		t.Errorf("got %+v, %t", got, ok)
	}
	if got, ok := f.service.Get(region, "/new"); !ok || got.Type != "SecureString" || got.Version != 1 {
		t.Errorf("new: %+v, %t", got, ok)
	}
	if _, ok := f.service.Get("us-east-1", name); ok {
		t.Error("the parameter is in another region too")
	}
	if err := f.service.Put(region, name, ""); err == nil || !strings.Contains(err.Error(), "ValidationException") {
		t.Errorf("empty value: %v", err)
	}
}
