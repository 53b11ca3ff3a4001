package runapitest

import (
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubeopera/platform/shared/httpapi/httpapitest"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/skip"
)

// Random holds a service to its document: it sends random requests to a world that
// make makes, in a bubble of synctest. values are what the document's schemas leave
// to the service's rules; live makes something happen to the runs that are at work.
// usual are optional fields that most valid requests have.
func Random(t *testing.T, world func(t *testing.T) (a API, values map[string]func(*rand.Rand) any, live func(*rand.Rand)), usual ...string) {
	t.Helper()
	seed, requests := randomness(t)
	synctest.Test(t, func(t *testing.T) {
		a, values, live := world(t)
		document, err := a.Handler.OpenAPI()
		if err != nil {
			t.Fatal(err)
		}
		httpapitest.Random(t, httpapitest.Config{
			Handler: a.Handler, Document: document, Headers: http.Header{"X-Api-Key": {Key}},
			Requests: requests, Seed: seed, Timeout: 70 * time.Second,
			Values: values, Usual: usual, Before: func(rng *rand.Rand) {
				if rng.IntN(2) == 0 {
					Pass(time.Duration(rng.IntN(10)) * time.Second)
					live(rng)
				}
			},
		})
	})
}

// randomness is the seed of a test of random requests, KUBEOPERA_SEED if that is set,
// and how many it sends.
func randomness(tb testing.TB) (seed uint64, requests int) {
	tb.Helper()
	seed, requests = uint64(time.Now().UnixNano()), 2000
	if text := os.Getenv("KUBEOPERA_SEED"); text != "" { //nolint:forbidigo // for the one who repeats a failure
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatal(err)
		}
	}
	if skip.Soaking() {
		requests = 20000
	}
	return seed, requests
}

// Mostly is the first of the choices, but for one time in n, when it is any.
func Mostly(n int, choices ...any) func(*rand.Rand) any {
	return func(rng *rand.Rand) any {
		if rng.IntN(n) > 0 {
			return choices[0]
		}
		return choices[rng.IntN(len(choices))]
	}
}

// ID is that of a run which one of the filters selects, or any, or of none.
func (w World) ID(tb testing.TB, filters ...func(runs.Run) bool) func(*rand.Rand) any {
	tb.Helper()
	return func(rng *rand.Rand) any {
		list := w.Recent(tb, nil)
		if i := rng.IntN(len(filters) + 1); i < len(filters) {
			if some := w.Recent(tb, filters[i]); len(some) > 0 {
				list = some
			}
		}
		if len(list) == 0 || rng.IntN(10) == 0 {
			return "01938f3a-1c2d-7abc-8def-000000000099"
		}
		return string(list[rng.IntN(len(list))].ID)
	}
}
