package statebucket

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/runner/awsconfig"
	"github.com/kubeopera/platform/shared/runner/awsfake"
)

const name = "kubeopera-terraform-state-acme"

func config(fake *awsfake.Server, region string) Config {
	return Config{
		AWS: aws.Config{
			Region:       region,
			BaseEndpoint: aws.String(fake.URL),
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "AKIAEXAMPLE", SecretAccessKey: "secret"}, nil
			}),
			Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		},
		PathStyle: true,
		Identity:  awsconfig.Identity{Account: awsfake.Account, Partition: "aws"},
		Bucket:    name,
		Tags:      map[string]string{"environment": "acme", "a&b": "<c>"},
		Poll:      time.Millisecond,
		Patience:  500 * time.Millisecond,
	}
}

func TestEnsure_creates_and_hardens(t *testing.T) {
	t.Parallel()
	for _, region := range []string{"us-east-1", "eu-west-1", "xx-newest-1"} {
		t.Run(region, func(t *testing.T) {
			t.Parallel()
			fake := awsfake.New(t)
			got, err := Ensure(t.Context(), config(fake, region))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Bucket{Region: region, Created: true}, got); diff != "" {
				t.Errorf("bucket (-want +got):\n%s", diff)
			}
			settings := fake.Settings(name)
			var text strings.Builder
			for _, key := range []string{"publicAccessBlock", "ownershipControls", "encryption", "tagging", "lifecycle", "policy", "versioning"} {
				text.WriteString(key + "\n" + settings[key] + "\n\n")
			}
			golden.Equal(t, "hardened.txt", []byte(text.String()))
			ops := fake.Operations()
			if last := ops[len(ops)-1]; last != "PutBucketTagging" {
				t.Errorf("a tag marks a bucket that is done, but the last operation is %s", last)
			}
		})
	}
}

func TestEnsure_names_the_bucket_by_its_partition(t *testing.T) {
	t.Parallel()
	fake := awsfake.New(t)
	cfg := config(fake, "cn-north-1")
	cfg.Identity.Partition = "aws-cn"
	if _, err := Ensure(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if policy := fake.Settings(name)["policy"]; !strings.Contains(policy, `"arn:aws-cn:s3:::`+name+`/*"`) {
		t.Errorf("policy %s", policy)
	}
}

const done = "<Tagging><TagSet><Tag><Key>kubeopera.io/state-bucket</Key><Value>hardened</Value></Tag></TagSet></Tagging>"

func TestEnsure_leaves_a_finished_bucket_alone(t *testing.T) {
	t.Parallel()
	fake := awsfake.New(t)
	fake.AddBucket(name, "eu-west-1", awsfake.Account, map[string]string{"tagging": done})
	got, err := Ensure(t.Context(), config(fake, "eu-west-1"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Bucket{Region: "eu-west-1"}, got); diff != "" {
		t.Errorf("bucket (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"HeadBucket", "GetBucketTagging"}, fake.Operations()); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

func TestEnsure_finds_a_bucket_in_another_region(t *testing.T) {
	t.Parallel()
	fake := awsfake.New(t)
	fake.AddBucket(name, "ap-south-1", awsfake.Account, map[string]string{"tagging": done})
	got, err := Ensure(t.Context(), config(fake, "eu-west-1"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Region != "ap-south-1" || got.Created {
		t.Errorf("bucket %+v", got)
	}
}

func TestEnsure_finishes_what_another_run_began_and_weakens_nothing(t *testing.T) {
	t.Parallel()
	fake := awsfake.New(t)
	const lifecycle = "<LifecycleConfiguration><Rule><ID>ours</ID><Status>Enabled</Status></Rule></LifecycleConfiguration>"
	const tags = "<Tagging><TagSet><Tag><Key>owner</Key><Value>them</Value></Tag></TagSet></Tagging>"
	const encryption = "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>"
	fake.AddBucket(name, "eu-west-1", awsfake.Account, map[string]string{
		"policy": `{"Statement":[]}`, "lifecycle": lifecycle, "tagging": tags, "encryption": encryption,
	})
	if _, err := Ensure(t.Context(), config(fake, "eu-west-1")); err != nil {
		t.Fatal(err)
	}
	settings := fake.Settings(name)
	if settings["policy"] != `{"Statement":[]}` || settings["lifecycle"] != lifecycle {
		t.Errorf("policy %s, lifecycle %s", settings["policy"], settings["lifecycle"])
	}
	if settings["encryption"] != encryption {
		t.Errorf("encryption %s", settings["encryption"])
	}
	for _, want := range []string{"<Key>owner</Key><Value>them</Value>", "<Key>a&amp;b</Key>", "kubeopera.io/state-bucket"} {
		if !strings.Contains(settings["tagging"], want) {
			t.Errorf("the tags lack %s: %s", want, settings["tagging"])
		}
	}
	if settings["publicAccessBlock"] == "" || settings["versioning"] == "" {
		t.Errorf("settings %v", settings)
	}
}

func TestEnsure_works_without_the_right_to_see_to_settings(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"GetBucketTagging", "PutBucketPolicy"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			fake := awsfake.New(t)
			fake.AddBucket(name, "eu-west-1", awsfake.Account, nil)
			fake.SetFault(on(op, "AccessDenied", http.StatusForbidden))
			got, err := Ensure(t.Context(), config(fake, "eu-west-1"))
			if err != nil || got.Unhardened == "" {
				t.Errorf("bucket %+v, error %v", got, err)
			}
		})
	}
}

// TestEnsure_creates_without_tags_where_they_are_refused: they need a right of
// their own, and come with the other settings.
func TestEnsure_creates_without_tags_where_they_are_refused(t *testing.T) {
	t.Parallel()
	for _, region := range []string{"us-east-1", "eu-west-1"} {
		t.Run(region, func(t *testing.T) {
			t.Parallel()
			fake := awsfake.New(t)
			refusals := 1
			fake.SetFault(func(op, _ string) (string, int) {
				if op == "CreateBucket" && refusals > 0 {
					refusals--
					return "AccessDenied", http.StatusForbidden
				}
				return "", 0
			})
			if _, err := Ensure(t.Context(), config(fake, region)); err != nil {
				t.Fatal(err)
			}
			if tags := fake.Settings(name)["tagging"]; !strings.Contains(tags, "<Key>environment</Key>") {
				t.Errorf("tags %s", tags)
			}
		})
	}
}

func TestEnsure_asks_the_buckets_own_region_whose_it_is(t *testing.T) {
	t.Parallel()
	fake := awsfake.New(t)
	fake.AddBucket(name, "ap-south-1", awsfake.Account, map[string]string{"tagging": done})
	fake.SetFault(once("HeadBucket", "AccessDenied", http.StatusForbidden))
	got, err := Ensure(t.Context(), config(fake, "eu-west-1"))
	if err != nil || got.Region != "ap-south-1" {
		t.Errorf("bucket %+v, error %v", got, err)
	}
}

func once(operation, code string, status int) awsfake.Fault {
	left := 1
	return func(op, _ string) (string, int) {
		if op == operation && left > 0 {
			left--
			return code, status
		}
		return "", 0
	}
}

func TestFind_creates_nothing(t *testing.T) {
	t.Parallel()
	fake := awsfake.New(t)
	if _, found, err := Find(t.Context(), config(fake, "eu-west-1")); found || err != nil {
		t.Errorf("found %v, error %v", found, err)
	}
	fake.AddBucket(name, "ap-south-1", awsfake.Account, nil)
	got, found, err := Find(t.Context(), config(fake, "eu-west-1"))
	if !found || err != nil || got.Region != "ap-south-1" {
		t.Errorf("bucket %+v, found %v, error %v", got, found, err)
	}
}

func TestEnsure_two_runs_at_once(t *testing.T) {
	t.Parallel()
	for _, region := range []string{"us-east-1", "eu-west-1"} {
		t.Run(region, func(t *testing.T) {
			t.Parallel()
			fake := awsfake.New(t)
			// Both look before either creates.
			var looking sync.WaitGroup
			looking.Add(2)
			var looks sync.Map
			run := func() error {
				cfg := config(fake, region)
				b := bucket{Config: cfg}
				found, err := b.find(t.Context())
				if err != nil {
					return err
				}
				looks.Store(found.exists, true)
				looking.Done()
				looking.Wait()
				if err := b.create(t.Context()); err != nil {
					return err
				}
				if _, err := b.await(t.Context()); err != nil {
					return err
				}
				return b.harden(t.Context(), b.client(region), true)
			}
			errs := make(chan error, 2)
			for range 2 {
				go func() { errs <- run() }()
			}
			for range 2 {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if _, there := looks.Load(true); there {
				t.Error("the bucket was there too early for this test")
			}
		})
	}
}

func on(operation, code string, status int) awsfake.Fault {
	return func(op, _ string) (string, int) {
		if op == operation {
			return code, status
		}
		return "", 0
	}
}

func TestEnsure_waits_for_a_busy_name(t *testing.T) {
	t.Parallel()
	fake := awsfake.New(t)
	left := 3
	fake.SetFault(func(op, _ string) (string, int) {
		if op == "CreateBucket" && left > 0 {
			left--
			return "OperationAborted", http.StatusConflict
		}
		return "", 0
	})
	got, err := Ensure(t.Context(), config(fake, "eu-west-1"))
	if err != nil || !got.Created {
		t.Errorf("bucket %+v, error %v", got, err)
	}
}

func TestEnsure_waits_until_the_new_bucket_shows(t *testing.T) {
	t.Parallel()
	fake := awsfake.New(t)
	heads, lists, settings := 0, 0, 0
	fake.SetFault(func(op, _ string) (string, int) {
		switch op {
		case "HeadBucket":
			if heads++; heads < 4 {
				return "NotFound", http.StatusNotFound
			}
		case "ListObjectsV2":
			if lists++; lists < 2 {
				return "NoSuchBucket", http.StatusNotFound
			}
		case "PutBucketPolicy":
			if settings++; settings < 3 {
				return "NoSuchBucket", http.StatusNotFound
			}
		}
		return "", 0
	})
	got, err := Ensure(t.Context(), config(fake, "eu-west-1"))
	if err != nil || !got.Created || heads != 5 || lists != 2 || settings != 3 {
		t.Errorf("bucket %+v, error %v, %d looks, %d lists, %d attempts at the policy", got, err, heads, lists, settings)
	}
}

func TestEnsure_fails_clearly(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(*awsfake.Server)
		says    string
		refused awsconfig.Reason
	}{
		{
			name:    "a bucket of somebody else",
			prepare: func(s *awsfake.Server) { s.AddBucket(name, "eu-west-1", "999999999999", nil) },
			says:    "belongs to another account",
		},
		{
			name:    "a name that somebody else has taken",
			prepare: func(s *awsfake.Server) { s.SetFault(on("CreateBucket", "BucketAlreadyExists", http.StatusConflict)) },
			says:    "taken by another AWS account",
		},
		{
			name:    "a name that stays busy",
			prepare: func(s *awsfake.Server) { s.SetFault(on("CreateBucket", "OperationAborted", http.StatusConflict)) },
			says:    "retry later",
		},
		{
			name:    "no right to create",
			prepare: func(s *awsfake.Server) { s.SetFault(on("CreateBucket", "AccessDenied", http.StatusForbidden)) },
			says:    "create the state bucket",
			refused: awsconfig.ReasonDenied,
		},
		{
			name:    "no right to harden",
			prepare: func(s *awsfake.Server) { s.SetFault(on("PutBucketPolicy", "AccessDenied", http.StatusForbidden)) },
			says:    "set the policy of the state bucket",
			refused: awsconfig.ReasonDenied,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fake := awsfake.New(t)
			tt.prepare(fake)
			_, err := Ensure(t.Context(), config(fake, "eu-west-1"))
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("error %v, want one that says %q", err, tt.says)
			}
			refused, ok := errors.AsType[*awsconfig.RefusedError](err)
			if ok != (tt.refused != "") || (ok && refused.Reason != tt.refused) {
				t.Errorf("refusal %+v, want %q", refused, tt.refused)
			}
		})
	}
}
