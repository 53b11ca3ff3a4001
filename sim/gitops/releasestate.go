package gitops

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Reasons that helm-controller gives.
const (
	reasonProgressing   = "Progressing"
	reasonInstalled     = "InstallSucceeded"
	reasonInstallFailed = "InstallFailed"
	reasonRetries       = "RetriesExceeded"
)

// releaseState is what a release's status says, in helm-controller's words.
type releaseState struct {
	conditions []metav1.Condition
	deployed   bool
	failures   int64
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func (r release) succeeded() releaseState {
	message := fmt.Sprintf("Helm install succeeded for release %s/%s.v1 with chart %s@%s", r.releaseNamespace(), r.name(), r.chart(), r.version())
	return releaseState{deployed: true, conditions: []metav1.Condition{
		condition("Ready", metav1.ConditionTrue, reasonInstalled, message),
		condition("Released", metav1.ConditionTrue, reasonInstalled, message),
	}}
}

func (r release) progressing() releaseState {
	message := fmt.Sprintf("Running 'install' action with timeout of %s", r.timeout())
	return releaseState{conditions: []metav1.Condition{
		condition("Ready", metav1.ConditionUnknown, reasonProgressing, message),
		condition("Reconciling", metav1.ConditionTrue, reasonProgressing, message),
	}}
}

func (r release) notReady(reason, message string) *releaseState {
	return &releaseState{conditions: []metav1.Condition{condition("Ready", metav1.ConditionFalse, reason, message)}}
}

func (r release) failed(problem string, stalled bool) releaseState {
	message := fmt.Sprintf("Helm install failed for release %s/%s with chart %s@%s: %s", r.releaseNamespace(), r.name(), r.chart(), r.version(), problem)
	reason := reasonInstallFailed
	if stalled {
		reason = reasonRetries
	}
	state := releaseState{failures: 1, conditions: []metav1.Condition{
		condition("Ready", metav1.ConditionFalse, reason, message),
		condition("Released", metav1.ConditionFalse, reasonInstallFailed, message),
	}}
	if stalled {
		state.conditions = append(state.conditions, condition("Stalled", metav1.ConditionTrue, reasonRetries, "Failed to install after 1 attempt(s)"))
	}
	return state
}

func (r release) faultState(fault ReleaseFault) releaseState {
	if fault.Message == "" {
		return r.progressing()
	}
	return r.failed(fault.Message, fault.Stalled)
}

// set writes a state into the object and tells whether that changed anything.
func (r release) set(state releaseState) bool {
	generation := r.object.GetGeneration()
	var conditions []any
	same := len(state.conditions) == len(conditionsOf(r.object))
	for _, c := range state.conditions {
		old := readCondition(r.object, c.Type)
		c.LastTransitionTime = old.LastTransitionTime
		if old.Status != c.Status {
			c.LastTransitionTime = metav1.Now()
		}
		same = same && old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message && old.ObservedGeneration == generation
		conditions = append(conditions, map[string]any{
			"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message,
			"observedGeneration": generation, "lastTransitionTime": c.LastTransitionTime.UTC().Format(time.RFC3339),
		})
	}
	requested := r.object.GetAnnotations()[reconcileAt]
	status, _, _ := unstructured.NestedMap(r.object.Object, "status")
	if same && status["observedGeneration"] == generation && r.text("status", "lastHandledReconcileAt") == requested {
		return false
	}
	wanted := maps.Clone(status)
	if wanted == nil {
		wanted = map[string]any{}
	}
	wanted["conditions"] = conditions
	wanted["observedGeneration"] = generation
	wanted["failures"] = state.failures
	wanted["storageNamespace"] = r.releaseNamespace()
	if requested != "" {
		wanted["lastHandledReconcileAt"] = requested
	}
	if state.deployed {
		wanted["lastAttemptedRevision"] = r.version()
		wanted["history"] = []any{r.snapshot()}
	}
	r.object.Object["status"] = wanted
	return true
}

// snapshot is the entry of a release's history.
func (r release) snapshot() map[string]any {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(r.key.String()+r.version())))
	now := time.Now().UTC().Format(time.RFC3339)
	return map[string]any{
		"name": r.name(), "namespace": r.releaseNamespace(), "version": int64(1), "status": "deployed",
		"chartName": r.chart(), "chartVersion": r.version(), "configDigest": digest, "digest": digest,
		"firstDeployed": now, "lastDeployed": now,
	}
}
