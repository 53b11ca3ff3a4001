package reads

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubeopera/platform/e2e/bench"
	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/database/pgtest"
	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
)

const (
	live   = 200   // runs at work
	stored = 10000 // runs in the database, those included
	rate   = 1000  // reads a second
	length = 20 * time.Second
	starts = 30 // runs that are started one after the other
)

// BenchmarkReads measures the service on both databases.
func BenchmarkReads(b *testing.B) {
	var table bench.Table
	plane := controlplanetest.Start(b, controlplane.Config{})
	binary := build(b)
	databases := []struct {
		name string
		url  func(*testing.B) string
	}{
		{"SQLite", func(b *testing.B) string {
			b.Helper()
			return "sqlite://" + filepath.Join(b.TempDir(), "runs.db")
		}},
		{"Postgres", func(b *testing.B) string {
			b.Helper()
			return pgtest.Start(b).Database(b)
		}},
	}
	for _, database := range databases {
		b.Run(database.name, func(b *testing.B) {
			s := setUp(b, plane, binary, database.url(b))
			s.read(b, &table, database.name)
			s.startRuns(b, &table, database.name)
		})
	}
	if err := table.Write(os.Stdout); err != nil {
		b.Error(err)
	}
}

// scene is a service with its runs.
type scene struct {
	service *service
	api     *observer
	node    *node
	http    *http.Client
	live    []string // ids of runs at work
	all     []string // ids of all runs
}

// setUp starts a service, lets runs get to work, and adds those that have ended.
func setUp(b *testing.B, plane *controlplane.ControlPlane, binary, database string) *scene {
	b.Helper()
	config := plane.RESTConfig()
	config.QPS = -1
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	namespace := strings.ToLower(filepath.Base(b.Name()))
	if _, err := admin.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	s := &scene{api: observe(b, plane), http: &http.Client{Transport: transport}}
	s.service = newService(b, binary, s.api.kubeconfig, namespace, database)
	s.node = startNode(b, admin, namespace)
	s.service.start(b)

	client := s.service.client(b)
	for i := range live {
		run, err := client.StartProvision(b.Context(), request(fmt.Sprintf("live-%d", i)))
		if err != nil {
			b.Fatal(err)
		}
		s.live = append(s.live, run.ID)
	}
	for _, id := range s.live {
		harness.Until(b, "run "+id+" is at work", func() (bool, error) {
			run, err := client.Provision(b.Context(), id)
			return run.Phase == api.PhaseApply, err
		})
		<-s.node.jobs
	}
	s.service.stop(b)
	s.all = append(addHistory(b, database, s.live[0], stored-live), s.live...)
	s.service.start(b)
	return s
}

func request(name string) api.ProvisionRequest {
	return api.ProvisionRequest{
		Name: name, Topology: api.TopologyEKS, Region: "eu-west-1", CredentialID: credentialID, KubernetesVersion: "1.35",
		Tags: map[string]string{"team": "bench"},
	}
}

// read measures GET /api/v1/provisions/{id}: half of the reads are of live runs,
// which are those that somebody polls.
func (s *scene) read(b *testing.B, table *bench.Table, database string) {
	b.Helper()
	one := func(ctx context.Context, call int) error {
		ids := s.all
		if call%2 == 0 {
			ids = s.live
		}
		return s.service.get(ctx, s.http, "/api/v1/provisions/"+ids[rand.N(len(ids))])
	}
	if _, err := bench.AtRate(b.Context(), rate, 5*time.Second, one); err != nil { // caches fill, connections open
		b.Fatal(err)
	}
	s.api.reset()
	latencies, err := bench.AtRate(b.Context(), rate, length, one)
	if err != nil {
		b.Fatal(err)
	}
	asked := s.api.count()
	now, peak := s.memory(b)
	most, err := bench.AtFullSpeed(b.Context(), length/2, one)
	if err != nil {
		b.Fatal(err)
	}
	caused := s.caused(b, asked)
	_, mostMemory := s.memory(b)
	p99 := latencies.Percentile(99)
	table.Add(fmt.Sprintf("%s: status reads, %d/s, %d runs stored, %d of them live: p50, p99, p99.9", database, rate, stored, live),
		fmt.Sprintf("%s, %s, %s", bench.Milliseconds(latencies.Median()), bench.Milliseconds(p99), bench.Milliseconds(latencies.Percentile(99.9))),
		bench.Verdict("p99 below 10 ms", p99 < 10*time.Millisecond))
	table.Add(fmt.Sprintf("%s: requests to Kubernetes for %d reads", database, len(latencies)), fmt.Sprint(caused), bench.Verdict("none", caused == 0))
	table.Add(database+": memory of the service (RSS) in that time: at its end, at most", fmt.Sprintf("%.0f MB, %.0f MB", now, peak), bench.Verdict("below 80 MB", peak < 80))
	table.Add(database+": most status reads; memory after them, at most", fmt.Sprintf("%.0f/s; %.0f MB", most, mostMemory), "")
}

// memory is what the service has of the machine's memory, in MB: now, and at most
// so far.
func (s *scene) memory(b *testing.B) (now, most float64) {
	b.Helper()
	now, most, err := bench.Memory(s.service.process.Process.Pid)
	if err != nil {
		b.Fatal(err)
	}
	return now, most
}

// caused counts what reads have asked of Kubernetes: all but watches and what the
// service asks by itself, which is the outputs of live runs at each sweep, fifty at
// a time, and once a minute the credentials. It is an error if there is more.
func (s *scene) caused(b *testing.B, asked map[string]int) int {
	b.Helper()
	const sweep = 1600 * time.Millisecond // the default, less its jitter
	lists := (live/50)*int(length/sweep+1) + 1
	caused := max(0, asked["GET secrets"]-lists)
	for question, n := range asked {
		if question != "GET secrets" && !strings.HasPrefix(question, "GET watch of ") {
			caused += n
		}
	}
	if caused > 0 {
		b.Errorf("status reads ask Kubernetes: %v", asked)
	}
	return caused
}

// startRuns measures how long it takes from a request to the answer and to the Job.
func (s *scene) startRuns(b *testing.B, table *bench.Table, database string) {
	b.Helper()
	client := s.service.client(b)
	var answers, jobs bench.Samples
	for i := range starts {
		begin := time.Now()
		run, err := client.StartProvision(b.Context(), request(fmt.Sprintf("new-%d", i)))
		answers = append(answers, time.Since(begin))
		if err != nil {
			b.Fatal(err)
		}
		select {
		case job := <-s.node.jobs:
			if job.run != run.ID {
				b.Fatalf("a Job of run %s, want %s", job.run, run.ID)
			}
			jobs = append(jobs, job.at.Sub(begin))
		case <-time.After(time.Minute):
			b.Fatalf("run %s has no Job", run.ID)
		}
	}
	show := func(s bench.Samples) string {
		return fmt.Sprintf("%s, %s", bench.Milliseconds(s.Median()), bench.Milliseconds(slices.Max(s)))
	}
	table.Add(fmt.Sprintf("%s: from POST to 202, of %d: median, slowest", database, starts), show(answers), "")
	table.Add(fmt.Sprintf("%s: from POST to the Job, of %d: median, slowest", database, starts), show(jobs), "")
}
