package provisioncmd

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/provisioner/internal/cli/session"
	"github.com/kubeopera/platform/shared/api"
)

// TestEveryFieldHasAFlag: what the API takes can be said on the command line.
func TestEveryFieldHasAFlag(t *testing.T) {
	t.Parallel()
	c := newCommands(&session.Session{})
	create, plan := c.create(), c.plan()
	for field := range reflect.TypeFor[api.ProvisionRequest]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		flag := strings.ReplaceAll(name, "_", "-")
		if flag == "machines" {
			flag = "machine"
		}
		if create.Flags().Lookup(flag) == nil {
			t.Errorf("create has no flag --%s", flag)
		}
		if (plan.Flags().Lookup(flag) == nil) != (flag == "operation") {
			t.Errorf("plan and --%s do not fit", flag)
		}
	}
}

func TestEveryFieldOfAMachineCanBeGiven(t *testing.T) {
	t.Parallel()
	want := api.Machine{Address: "a", Role: "b", User: "c", Port: 22, HostKey: "ssh-ed25519 AAAA=", Transport: "d", InstanceID: "e"}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	if len(fields) != reflect.TypeFor[api.Machine]().NumField() {
		t.Fatalf("a machine has other fields than %s", data)
	}
	var pairs []string
	for name, value := range fields {
		pairs = append(pairs, name+"="+strings.Trim(string(value), `"`))
	}
	var m machines
	if err := m.Set(strings.Join(pairs, ",")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(machines{want}, m); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "address", "port=x", "address=a,address=b"} {
		if m.Set(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
