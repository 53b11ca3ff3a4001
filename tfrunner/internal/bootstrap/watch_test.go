package bootstrap

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a Parameter Store; before answers a request in its place.
type store struct {
	values map[string]string
	before func(ctx context.Context, call int) error
	calls  []time.Time
	asked  [][]string
	denied error // what is below a path
	paths  []string
}

// GetParameters implements Parameters.
func (s *store) GetParameters(ctx context.Context, in *ssm.GetParametersInput, _ ...func(*ssm.Options)) (*ssm.GetParametersOutput, error) {
	s.calls, s.asked = append(s.calls, time.Now()), append(s.asked, in.Names)
	if s.before != nil {
		if err := s.before(ctx, len(s.calls)); err != nil {
			return nil, err
		}
	}
	if len(in.Names) > 10 || !aws.ToBool(in.WithDecryption) {
		return nil, &smithy.GenericAPIError{Code: "ValidationException", Message: "a request that AWS would not take"}
	}
	out := &ssm.GetParametersOutput{}
	for _, name := range in.Names {
		if value, ok := s.values[name]; ok {
			out.Parameters = append(out.Parameters, types.Parameter{Name: &name, Value: &value})
		} else {
			out.InvalidParameters = append(out.InvalidParameters, name)
		}
	}
	return out, nil
}

// GetParametersByPath implements Parameters: two at a time.
func (s *store) GetParametersByPath(_ context.Context, in *ssm.GetParametersByPathInput, _ ...func(*ssm.Options)) (*ssm.GetParametersByPathOutput, error) {
	s.paths = append(s.paths, aws.ToString(in.Path))
	if s.denied != nil {
		return nil, s.denied
	}
	if aws.ToInt32(in.MaxResults) > 10 || !aws.ToBool(in.WithDecryption) {
		return nil, &smithy.GenericAPIError{Code: "ValidationException", Message: "a request that AWS would not take"}
	}
	out := &ssm.GetParametersByPathOutput{}
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		if !strings.HasPrefix(name, aws.ToString(in.Path)+"/") || name <= aws.ToString(in.NextToken) {
			continue
		}
		if len(out.Parameters) == 2 {
			out.NextToken = out.Parameters[1].Name
			break
		}
		value := s.values[name]
		out.Parameters = append(out.Parameters, types.Parameter{Name: &name, Value: &value})
	}
	return out, nil
}

type watching struct {
	Watch
	store    *store
	pictures []string
	troubles []string
	unseen   []string
}

func watch(n int, v map[string]string) *watching {
	w := &watching{store: &store{values: v}}
	w.Watch = Watch{
		Parameters: w.store, Layout: layout(n), Interval: 20 * time.Second, Timeout: 20 * time.Minute,
		Observe: func(c Cluster) { w.pictures = append(w.pictures, c.String()) },
		Trouble: func(err error) { w.troubles = append(w.troubles, err.Error()) },
		Unseen:  func(err error) { w.unseen = append(w.unseen, err.Error()) },
	}
	return w
}

func throttled() error {
	return &smithy.GenericAPIError{Code: "ThrottlingException", Message: "Rate exceeded"}
}

func TestUntil_polls_until_all_is_as_it_should_be(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(1, values("PENDING", "PENDING", "PENDING"))
		w.store.before = func(_ context.Context, call int) error {
			switch call {
			case 3:
				w.store.values["/kubeopera/acme/bootstrap_status/control-plane-0"] = "RUNNING|kubeadm init|i-0|1|"
			case 5:
				maps.Copy(w.store.values, values("READY:u:h", "YXBp", "JOINED:i-0:1"))
			}
			return nil
		}
		start := time.Now()
		c, err := w.Until(t.Context(), Cluster.Complete)
		if err != nil || !c.Complete() {
			t.Fatalf("%+v, %v", c, err)
		}
		if took := time.Since(start); took != 80*time.Second {
			t.Errorf("took %s", took)
		}
		want := []string{
			"control-plane-0: has not reported yet", "control-plane-0: has not reported yet",
			"control-plane-0: kubeadm init", "control-plane-0: kubeadm init", "1 of 1 control-plane nodes joined",
		}
		if diff := cmp.Diff(want, w.pictures); diff != "" {
			t.Errorf("pictures (-want +got):\n%s", diff)
		}
	})
}

func TestUntil_asks_for_ten_at_a_time_and_for_no_secret_but_the_kubeconfig(t *testing.T) {
	t.Parallel()
	w := watch(5, values("READY:u:h", "YXBp", "JOINED:i:1", "JOINED:i:1", "JOINED:i:1", "JOINED:i:1", "JOINED:i:1"))
	if _, err := w.Until(t.Context(), Cluster.Complete); err != nil {
		t.Fatal(err)
	}
	if len(w.store.asked) != 2 {
		t.Errorf("%d requests", len(w.store.asked))
	}
	all := slices.Concat(w.store.asked...)
	if len(all) != 12 || all[len(all)-1] != "/kubeopera/acme/admin_kubeconfig" {
		t.Errorf("asked for %v", all)
	}
	for _, name := range all {
		if strings.Contains(name, "token") || strings.Contains(name, "certificate_key") {
			t.Errorf("asked for %s", name)
		}
	}
}

func TestUntil_bears_trouble_and_slows_down(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(1, values("READY:u:h", "YXBp", "JOINED:i-0:1"))
		w.store.before = func(_ context.Context, call int) error {
			switch {
			case call > 6:
				return nil
			case call%2 == 0:
				return errors.New("read tcp: connection reset by peer")
			}
			return throttled()
		}
		c, err := w.Until(t.Context(), Cluster.Complete)
		if err != nil || !c.Complete() {
			t.Fatalf("%+v, %v", c, err)
		}
		if len(w.troubles) != 6 || !strings.Contains(w.troubles[0], "Rate exceeded") {
			t.Errorf("troubles %v", w.troubles)
		}
		for i, longest := range []time.Duration{20, 40, 80, 120, 120, 120} {
			longest *= time.Second
			got := w.store.calls[i+1].Sub(w.store.calls[i])
			if got < longest/2 || got > longest {
				t.Errorf("pause %d took %s, want %s to %s", i, got, longest/2, longest)
			}
		}
	})
}

func TestUntil_an_answer_that_does_not_come_is_trouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(1, values("READY:u:h", "YXBp", "JOINED:i-0:1"))
		w.store.before = func(ctx context.Context, call int) error {
			if call > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		start := time.Now()
		if _, err := w.Until(t.Context(), Cluster.Complete); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > attemptTimeout+w.Interval || len(w.troubles) != 1 {
			t.Errorf("took %s, troubles %v", took, w.troubles)
		}
	})
}

func TestUntil_ends_early(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		values map[string]string
		fail   error
		says   string
		after  time.Duration
	}{
		{"a node gave up", values("READY:u:h", "YXBp", "JOINED:i-0:1", "FAILED:i-1:1:etcd is unhealthy", "PENDING"), nil, "control-plane-1 failed: etcd is unhealthy", 0},
		{"the credential may not", values("PENDING", "PENDING", "PENDING"), &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform: kms:Decrypt"}, "not allowed to do so: AccessDeniedException: not authorized to perform: kms:Decrypt", 0},
		{"the credential has expired", values("PENDING", "PENDING", "PENDING"), &smithy.GenericAPIError{Code: "ExpiredTokenException", Message: "expired"}, "is expired", 0},
		{"the key is gone", values("PENDING", "PENDING", "PENDING"), &types.InvalidKeyId{}, "InvalidKeyId", 0},
		{"the parameters are gone", map[string]string{}, nil, "are gone from AWS SSM: /kubeopera/acme/control_plane_joined/0, ", 40 * time.Second},
		{"time is up", values("PENDING", "PENDING", "PENDING", "PENDING", "PENDING"), nil, "not within 20m0s", 20 * time.Minute},
		{"time is up and AWS does not answer", values("PENDING", "PENDING", "PENDING"), throttled(), "AWS did not answer at the end: read the cluster's parameters: api error ThrottlingException: Rate exceeded", 20 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := watch(3, tt.values)
				w.store.before = func(context.Context, int) error { return tt.fail }
				start := time.Now()
				_, err := w.Until(t.Context(), Cluster.Complete)
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %v, want one with %q", err, tt.says)
				}
				if took := time.Since(start); took != tt.after {
					t.Errorf("took %s, want %s", took, tt.after)
				}
			})
		})
	}
}

func TestUntil_a_node_that_failed_does_not_matter_if_nobody_waits_for_it(t *testing.T) {
	t.Parallel()
	w := watch(2, values("READY:u:h", "YXBp", "JOINED:i-0:1", "FAILED:i-1:1:no"))
	if _, err := w.Until(t.Context(), Cluster.Published); err != nil {
		t.Error(err)
	}
}

func TestUntil_ends_at_once_when_it_is_interrupted(t *testing.T) {
	t.Parallel()
	wish := errors.New("somebody's wish")
	tests := []struct {
		name   string
		before func(ctx context.Context, call int) error
	}{
		{"between polls", nil},
		{"while AWS is asked", func(ctx context.Context, call int) error {
			if call < 3 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := watch(1, values("PENDING", "PENDING", "PENDING"))
				w.store.before = tt.before
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(50*time.Second, func() { cancel(wish) })
				start := time.Now()
				c, err := w.Until(ctx, Cluster.Complete)
				if !errors.Is(err, wish) || len(c.Nodes) != 1 {
					t.Errorf("%+v, %v", c, err)
				}
				if took := time.Since(start); took != 50*time.Second {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}
