package gitopsenv

import (
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// Development is the environment that others are generated from.
const Development = runcontract.DevelopmentEnvironment

// Inputs say what an environment is: the run contract's, whose rules are the
// service's as well.
type Inputs = runcontract.ScaffoldInputs

// Service is what an environment may say about one service.
type Service = api.ScaffoldService

// Registry is a login at a container registry, without its password.
type Registry = runcontract.Registry
