package harness

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubeopera/platform/e2e/leak"
)

// TestScanDatabaseFindsAPlantedSecret: in text, and in an archived log.
func TestScanDatabaseFindsAPlantedSecret(t *testing.T) {
	t.Parallel()
	const secret = "canary-of-the-database"
	scanner, err := leak.New(map[string]string{"the canary": secret})
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte(strings.Repeat("a line of the log\n", 10000) + secret)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{"text": "x" + secret, "log": zipped.Bytes(), "clean": "x"} {
		file := filepath.Join(t.TempDir(), "database.db")
		db, err := sql.Open("sqlite", "file:"+file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.ExecContext(t.Context(), "CREATE TABLE runs (id INTEGER, value)")
		if err == nil {
			_, err = db.ExecContext(t.Context(), "INSERT INTO runs VALUES (1, ?)", value)
		}
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		err = scanDatabase(t.Context(), scanner, file)
		if found := err != nil && strings.Contains(err.Error(), "table runs of "+file); found != (name != "clean") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDevelopmentSecretsAreThoseOfTheTree(t *testing.T) {
	t.Parallel()
	values, err := developmentSecrets("../..")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(values, "\n")
	for _, value := range []string{"development-postgres-password", "development-signing-secret"} {
		if !strings.Contains(text, value) {
			t.Errorf("%s is not among %d values", value, len(values))
		}
	}
}
