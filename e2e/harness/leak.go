package harness

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	_ "modernc.org/sqlite" // the services' databases

	"github.com/kubeopera/platform/e2e/leak"
	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/git"
)

// minCanary is what a value must have to be looked for, in bytes: shorter ones
// are names.
const minCanary = 12

// AddCanary adds a secret that must be nowhere; what says which one it is.
func (p *Platform) AddCanary(what, secret string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.canaries[what] = secret
}

// Canaries are the secrets that must be nowhere, as far as they are known by now.
func (p *Platform) Canaries() (*leak.Scanner, error) {
	all := map[string]string{}
	for what, secret := range p.Secrets() {
		all[what] = secret.Reveal()
	}
	development, err := developmentSecrets(p.root)
	if err != nil {
		return nil, err
	}
	for _, value := range development {
		all["the development tree's "+value[:minCanary]+"..."+value[len(value)-4:]] = value
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(all, p.canaries)
	return leak.New(all)
}

// developmentSecrets are the values in the Secrets of the embedded development
// tree: passwords, and digests of passwords.
func developmentSecrets(root string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, "scaffoldrunner/platform/tree/clusters/development/*/secrets.yaml"))
	if err != nil {
		return nil, err
	}
	var values []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		values = append(values, regexp.MustCompile(`development-[a-z-]+|[0-9a-f]{64}`).FindAllString(string(data), -1)...)
	}
	slices.Sort(values)
	if values = slices.Compact(values); len(values) < 20 {
		return nil, fmt.Errorf("only %d values in the development tree's Secrets, of %v", len(values), files)
	}
	return values, nil
}

// Opened are the values of the Secrets that the target's sealed-secrets controller
// has made, by namespace/name and key. They are canaries from now on.
func (p *Platform) Opened(ctx context.Context) (map[string]map[string]string, error) {
	target, err := kubernetes.NewForConfig(p.Target.RESTConfig())
	if err != nil {
		return nil, err
	}
	secrets, err := target.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	opened := map[string]map[string]string{}
	for _, secret := range secrets.Items {
		if !slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "SealedSecret" }) {
			continue
		}
		name, values := secret.Namespace+"/"+secret.Name, map[string]string{}
		for key, value := range secret.Data {
			values[key] = string(value)
			if len(value) >= minCanary {
				p.AddCanary(fmt.Sprintf("%s of the Secret %s as of version %s", key, name, secret.ResourceVersion), string(value))
			}
		}
		opened[name] = values
	}
	return opened, nil
}

// scan looks for the canaries in all that the platform wrote in the whole run:
// every file (logs, volumes, artifacts) but etcd's, every row of the databases,
// and every object of the GitOps repositories; and in processes' arguments.
func (p *Platform) scan(ctx context.Context, dir string, arguments []byte) error {
	if _, err := p.Opened(ctx); err != nil {
		return err
	}
	scanner, err := p.Canaries()
	if err != nil {
		return err
	}
	errs := []error{scanner.Scan("a process's arguments", arguments)}
	for _, file := range []string{p.ClusterProvisioner.Database(), p.GitOpsScaffolder.Database()} {
		errs = append(errs, scanDatabase(ctx, scanner, file))
	}
	for _, repository := range p.Repositories() {
		errs = append(errs, repository.Scan(ctx, func(o git.Object) error {
			// Whatever is found, the next ones are looked at as well.
			errs = append(errs, scanner.Scan(fmt.Sprintf("%s %s of %s", o.Kind, o.ID, repository.URL()), o.Content))
			return nil
		}))
	}
	files, err := scanner.ScanDir(dir, func(path string) bool {
		switch {
		case strings.Contains(path, "etcd") && !strings.Contains(path, "/logs/"): // secrets are meant to be in its data
		case strings.HasSuffix(path, "/node/memory"): // a file system in memory, of volumes from Secrets
		case path == "platform/"+sim.MountedDir: // the services' configuration
		default:
			return false
		}
		return true
	})
	if files < 10 {
		errs = append(errs, fmt.Errorf("the leak scan saw only %d files in %s", files, dir))
	}
	return errors.Join(append(errs, err)...)
}

// scanDatabase looks for the canaries in every value of a SQLite database: the
// file has long ones in pieces.
func scanDatabase(ctx context.Context, scanner *leak.Scanner, file string) (err error) {
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tables, err := query(ctx, db, "SELECT name FROM sqlite_master WHERE type = 'table'")
	if err != nil {
		return fmt.Errorf("tables of %s: %w", file, err)
	}
	if len(tables) == 0 {
		return fmt.Errorf("%s has no tables", file)
	}
	var errs []error
	for _, table := range tables {
		values, err := query(ctx, db, fmt.Sprintf("SELECT * FROM %q", table))
		errs = append(errs, err)
		for _, value := range values {
			errs = append(errs, scanner.Scan(fmt.Sprintf("table %s of %s", table, file), value))
		}
	}
	return errors.Join(errs...)
}

// query gives all values of all rows.
func query(ctx context.Context, db *sql.DB, text string) ([][]byte, error) {
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var values [][]byte
	for rows.Next() {
		row, into := make([][]byte, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		values = append(values, row...)
	}
	return values, rows.Err()
}
