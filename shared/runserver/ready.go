package runserver

import (
	"context"
	"errors"
	"log/slog"
	"strconv"

	"github.com/kubeopera/platform/shared/runs"
)

// ready says which dependency does not answer, or which version the database's
// schema has. Anybody may ask, and a driver's error holds addresses and names of
// users, so that only the log has it.
func ready(check func(context.Context) error, schema func(context.Context) (int64, error), log *slog.Logger) func(context.Context) (map[string]string, error) {
	return func(ctx context.Context) (map[string]string, error) {
		err := check(ctx)
		var version int64
		if err == nil {
			version, err = schema(ctx)
		}
		if err == nil {
			return map[string]string{"schema_version": strconv.FormatInt(version, 10)}, nil
		}
		log.WarnContext(ctx, "not ready", "error", err)
		switch {
		case errors.Is(err, runs.ErrDatabase):
			return nil, errors.New("the database does not answer as it should")
		case errors.Is(err, runs.ErrKubernetes):
			return nil, errors.New("the Kubernetes API does not answer as it should")
		}
		return nil, errors.New("the service's log says why")
	}
}
