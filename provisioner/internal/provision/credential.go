package provision

import (
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
)

func defaultAuth(kind cloudcred.Kind) api.KubeconfigAuth {
	if kind == cloudcred.KindAccessKey {
		return api.KubeconfigAuthEmbedded
	}
	return api.KubeconfigAuthExecOnly
}
