package emulator

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

// Guarding refuses, as EC2 does and the emulator does not, to delete a VPC, subnet
// or security group on which something depends. dependent names such a thing, or
// nothing.
func Guarding(next http.Handler, dependent func(ctx context.Context, region, id string) (string, error), log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := keyring.CallerFrom(r.Context())
		form, err := ReadForm(r)
		if err != nil || caller.Service != "ec2" {
			next.ServeHTTP(w, r)
			return
		}
		id := map[string]string{
			"DeleteVpc": form.Get("VpcId"), "DeleteSubnet": form.Get("SubnetId"), "DeleteSecurityGroup": form.Get("GroupId"),
		}[form.Get("Action")]
		if id == "" {
			next.ServeHTTP(w, r)
			return
		}
		user, err := dependent(r.Context(), caller.Region, id)
		if err != nil {
			log.WarnContext(r.Context(), "what depends on a resource is not known", "id", id, "error", err)
		}
		if user != "" {
			log.DebugContext(r.Context(), "deletion refused", "id", id, "dependent", user)
			protocol.WriteError(w, r, protocol.EC2, "", &protocol.Error{
				Status: http.StatusBadRequest, Code: "DependencyViolation",
				Message: "The resource '" + id + "' has a dependent object and cannot be deleted.",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}
