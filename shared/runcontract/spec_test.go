package runcontract_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

func spec() runcontract.Spec {
	return runcontract.Spec{
		Version: runcontract.SpecVersion, ID: "0192a1b2-0000-7000-8000-000000000001", Kind: runcontract.KindProvision,
		Operation: api.OperationApply, Name: "acme", Environment: "acme", Topology: api.TopologyEKS, Region: "eu-west-1",
		State: runcontract.State{Bucket: "b", Key: "terraform.tfstate"}, TimeoutSeconds: 60, GraceSeconds: 30,
		PollIntervalSeconds: 20, ControlPlaneTimeoutSeconds: 1200,
	}
}

func TestReadSpecReadsWhatAServiceWrites(t *testing.T) {
	data, err := json.Marshal(spec())
	if err != nil {
		t.Fatal(err)
	}
	got, err := runcontract.ReadSpec(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec(), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadSpecRefuses(t *testing.T) {
	tests := []struct{ name, data, want string }{
		{"a newer version", `{"version":2}`, "version 2"},
		{"a field that it does not know", `{"version":1,"shiny":true}`, "shiny"},
		{"two values", `{"version":1}{}`, "more than one"},
		{"what is not JSON", `version: 1`, "run spec"},
		{"nothing", ``, "run spec"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := runcontract.ReadSpec([]byte(test.data))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func FuzzReadSpec(f *testing.F) {
	data, err := json.Marshal(spec())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":1,"state":{"backend_config":{"a":"b"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := runcontract.ReadSpec(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := runcontract.ReadSpec(again)
		if err != nil {
			t.Fatalf("what was read cannot be written and read again: %v", err)
		}
		if diff := cmp.Diff(s, back, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
}
