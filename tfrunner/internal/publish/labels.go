package publish

import "github.com/kubeopera/platform/shared/runcontract"

// Labels are the labels of a run's outputs Secret: the service finds it by them.
func Labels(s runcontract.Spec) map[string]string {
	return map[string]string{
		runcontract.LabelManagedBy:   managedBy,
		runcontract.LabelRunID:       s.ID,
		runcontract.LabelKind:        string(s.Kind),
		runcontract.LabelEnvironment: s.Environment,
		runcontract.LabelComponent:   runcontract.ComponentOutputs,
	}
}

// managedBy is the service whose runs this runner carries out.
const managedBy = "cluster-provisioner"
