package terraformenv

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/golden"
)

func TestRenderMatchesGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, environment := range goldenEnvironments() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, err := Render(environment)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{FileBackend, FileMain, FileOutputs, FileProviders}
			if environment.Topology == api.TopologyEKS {
				want = append(want, FileVariables)
			}
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
				t.Errorf("files differ (-want +got):\n%s", diff)
			}
			for file, content := range files {
				golden.Equal(t, "environments/"+name+"/"+file, []byte(content))
			}
		})
	}
}

func TestRenderIsDeterministic(t *testing.T) {
	t.Parallel()
	environment := goldenEnvironments()["full"]
	environment.Tags = manyTags(MaxTags)
	first, err := Render(environment)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := Render(environment)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("second rendering differs (-first +second):\n%s", diff)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		change    func(*Environment)
		wantError string
	}{
		{
			name:      "a topology without modules",
			change:    func(e *Environment) { e.Topology = api.TopologyExistingMachines },
			wantError: `no modules for topology "existing_machines"`,
		},
		{
			name:      "no topology",
			change:    func(e *Environment) { e.Topology = "" },
			wantError: `no modules for topology ""`,
		},
		{
			name:      "self-made nodes without a control plane",
			change:    func(e *Environment) { e.Topology = api.TopologyVanillaKubeadm },
			wantError: "0 control planes",
		},
		{
			name: "more control planes than the modules take",
			change: func(e *Environment) {
				e.Topology = api.TopologyVanillaKubeadm
				e.ControlPlaneCount = 7
			},
			wantError: "7 control planes",
		},
		{
			name:      "no name",
			change:    func(e *Environment) { e.Name = "" },
			wantError: "without a name",
		},
		{
			name:      "no state bucket",
			change:    func(e *Environment) { e.StateBucket = "" },
			wantError: "a state bucket",
		},
		{
			name:      "a tag of the platform",
			change:    func(e *Environment) { e.Tags = map[string]string{TagEnvironment: "other"} },
			wantError: `tag "kubeopera.io/environment"`,
		},
		{
			name:      "the cluster's tag, even when the cluster has no name of its own",
			change:    func(e *Environment) { e.Tags = map[string]string{TagCluster: "other"} },
			wantError: `tag "kubeopera.io/cluster"`,
		},
		{
			name: "one tag in two forms of Unicode",
			change: func(e *Environment) {
				e.Tags = map[string]string{"\u00e9quipe": "a", "e\u0301quipe": "b"}
			},
			wantError: "given twice",
		},
		{
			name:      "more tags than AWS leaves room for",
			change:    func(e *Environment) { e.Tags = manyTags(MaxTags + 1) },
			wantError: "41 tags, at most 40",
		},
		{
			name:      "bytes that are not UTF-8",
			change:    func(e *Environment) { e.Tags = map[string]string{"owner": "\xff"} },
			wantError: "not UTF-8",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			environment := goldenEnvironments()["smallest"]
			tt.change(&environment)
			files, err := Render(environment)
			if err == nil || !strings.Contains(err.Error(), tt.wantError) {
				t.Errorf("got error %v and %d files, want an error with %q", err, len(files), tt.wantError)
			}
		})
	}
}

func TestAWSNameShortensLongNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("e", 100)
	tests := []struct {
		name, in, want string
		limit          int
	}{
		{name: "a name at the limit stays", in: "abcdefghijklmnopqrst", limit: 20, want: "abcdefghijklmnopqrst"},
		{name: "a longer one ends in a hash", in: "abcdefghijklmnopqrstu", limit: 20, want: "abcdefghijk-25f62a5a"},
		{name: "names that differ at the end stay different", in: "abcdefghijklmnopqrstv", limit: 20, want: "abcdefghijk-aef8193a"},
		{name: "no letter is cut in two", in: "abcdefghijéklmnopqrstu", limit: 20, want: "abcdefghij-6d74aad8"},
		{name: "EKS takes a hundred", in: long, limit: clusterNameLimit, want: long},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := awsName(tt.in, tt.limit); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
