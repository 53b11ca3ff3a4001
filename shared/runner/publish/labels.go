package publish

import "github.com/kubeopera/platform/shared/runcontract"

// Labels are the labels of a run's outputs Secret: the service finds it by them.
func Labels(kind runcontract.Kind, id, environment string) map[string]string {
	return map[string]string{
		runcontract.LabelManagedBy:   managedBy(kind),
		runcontract.LabelRunID:       id,
		runcontract.LabelKind:        string(kind),
		runcontract.LabelEnvironment: environment,
		runcontract.LabelComponent:   runcontract.ComponentOutputs,
	}
}

// managedBy is the service whose runs a kind is.
func managedBy(kind runcontract.Kind) string {
	if kind == runcontract.KindScaffold {
		return "gitops-scaffolder"
	}
	return "cluster-provisioner"
}
