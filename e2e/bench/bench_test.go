package bench

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPercentile(t *testing.T) {
	t.Parallel()
	var hundred Samples
	for i := 100; i > 0; i-- {
		hundred = append(hundred, time.Duration(i))
	}
	cases := map[string]struct {
		samples Samples
		p       float64
		want    time.Duration
	}{
		"none":                    {nil, 99, 0},
		"one":                     {Samples{7}, 99, 7},
		"the median of two":       {Samples{2, 1}, 50, 1},
		"the median of three":     {Samples{3, 1, 2}, 50, 2},
		"the 99th of a hundred":   {hundred, 99, 99},
		"the 99.9th of a hundred": {hundred, 99.9, 100},
		"all":                     {hundred, 100, 100},
		"nothing of all":          {hundred, 0, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.samples.Percentile(c.p); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// TestLateIsLate: a service that stands still for a second makes every call late
// that was due in it, not only those that it held.
func TestLateIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate = 1000
		open := time.Now().Add(time.Second)
		latencies, err := AtRate(t.Context(), rate, 2*time.Second, func(ctx context.Context, _ int) error { return until(ctx, open) })
		if err != nil {
			t.Fatal(err)
		}
		if len(latencies) != 2*rate {
			t.Fatalf("%d calls, want %d", len(latencies), 2*rate)
		}
		for call, got := range latencies {
			want := max(0, time.Second-time.Duration(call)*time.Millisecond)
			if got != want {
				t.Fatalf("call %d took %s, want %s", call, got, want)
			}
		}
	})
}

func TestALoadEndsWithItsFirstError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	fail := func(_ context.Context, call int) error {
		if call == 3 {
			return broken
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if _, err := AtRate(t.Context(), 10, time.Minute, fail); !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(begin); took != 300*time.Millisecond {
			t.Errorf("it went on for %s", took)
		}
	})
	if _, err := AtFullSpeed(t.Context(), time.Millisecond, fail); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	now, most, err := Memory(os.Getpid())
	if err != nil || now < 1 || most < now/2 {
		t.Errorf("%f MB, at most %f MB: %v", now, most, err)
	}
	if _, _, err := Memory(-1); err == nil {
		t.Error("a process that does not exist has memory")
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var table Table
	var out bytes.Buffer
	if err := table.Write(&out); err != nil || out.Len() > 0 {
		t.Errorf("an empty table is %q, error %v", &out, err)
	}
	table.Add("reads", Milliseconds(1500*time.Microsecond), Verdict("2 ms", true))
	if err := table.Write(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\n| measured | result | goal |\n|---|---|---|\n| reads | 1.5 ms | 2 ms: met |\n") {
		t.Errorf("the table is %s", &out)
	}
}
