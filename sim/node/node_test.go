package node_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubeopera/platform/sim/node"
)

// scenario is one test on the cluster that all of them share.
type scenario struct {
	*cluster
	t *testing.T
}

// TestNode runs all that needs a cluster on one.
func TestNode(t *testing.T) {
	c := start(t)
	t.Run("side by side", func(t *testing.T) {
		for name, test := range map[string]func(scenario){
			"a job completes":                               scenario.jobCompletes,
			"a job fails with its exit code":                scenario.jobFails,
			"init containers run in order":                  scenario.initOrder,
			"a failed init container ends the pod":          scenario.initFails,
			"the environment is resolved":                   scenario.environment,
			"volumes show what they should":                 scenario.volumes,
			"a ConfigMap is mounted inside an emptyDir":     scenario.nestedMount,
			"secrets do not reach the disk":                 scenario.secretsStayInMemory,
			"the projected token works":                     scenario.token,
			"deletion of a job gives its pod time":          scenario.gracefulDeletion,
			"a pod that does not end is killed":             scenario.forcedEnd,
			"a second deletion shortens the grace period":   scenario.shortenedGrace,
			"a termination message is kept":                 scenario.terminationMessage,
			"an unknown image is reported":                  scenario.unknownImage,
			"a missing secret volume is reported":           scenario.missingSecretVolume,
			"a missing key of the environment is reported":  scenario.missingKey,
			"a deadline ends a pod":                         scenario.deadline,
			"an eviction ends a pod":                        scenario.eviction,
			"a container out of memory is reported":         scenario.outOfMemory,
			"logs can be followed":                          scenario.followedLog,
			"log options are honoured":                      scenario.logOptions,
			"the log of a container that waits is refused":  scenario.logOfWaiting,
			"a pod that does not fit is reported":           scenario.unschedulable,
			"a failed container is restarted":               scenario.restart,
			"a command that does not exist is reported":     scenario.startError,
			"a container's file system is its own":          scenario.fileSystem,
			"containers of a pod run beside each other":     scenario.severalContainers,
			"a pod deleted while it waits for its volumes":  scenario.deletedWhileCreating,
			"a pod whose object is gone still has its time": scenario.removedObject,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(scenario{cluster: c, t: t})
			})
		}
	})
	// It stops the node for all pods.
	t.Run("a paused node leaves its pods alone", func(t *testing.T) { scenario{cluster: c, t: t}.paused() })
}

func (c scenario) jobCompletes() {
	t := c.t
	ns := c.namespace(t)
	c.createJob(t, ns, podSpec(script("main", "echo done")))
	c.waitJob(t, ns, batchv1.JobComplete)
	pod := c.jobPod(t, ns)
	if pod.Status.Phase != corev1.PodSucceeded || pod.Spec.NodeName != "simulator" {
		t.Errorf("pod is %s on %q, want Succeeded on simulator", pod.Status.Phase, pod.Spec.NodeName)
	}
	state := pod.Status.ContainerStatuses[0].State.Terminated
	if state == nil || state.Reason != "Completed" || state.ExitCode != 0 {
		t.Errorf("container ended with %+v, want Completed", state)
	}
	if got := c.log(t, ns, pod.Name, corev1.PodLogOptions{}); got != "done\n" {
		t.Errorf("log is %q, want done", got)
	}
}

func (c scenario) jobFails() {
	t := c.t
	ns := c.namespace(t)
	c.createJob(t, ns, podSpec(script("main", "exit 66")))
	if condition := c.waitJob(t, ns, batchv1.JobFailed); condition.Reason != batchv1.JobReasonBackoffLimitExceeded {
		t.Errorf("job failed for %q, want BackoffLimitExceeded", condition.Reason)
	}
	state := c.jobPod(t, ns).Status.ContainerStatuses[0].State.Terminated
	if state == nil || state.Reason != "Error" || state.ExitCode != 66 {
		t.Errorf("container ended with %+v, want Error and 66", state)
	}
}

// shared is an emptyDir that all containers of a spec mount at /shared.
func shared(spec corev1.PodSpec) corev1.PodSpec {
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = append(containers[i].VolumeMounts, corev1.VolumeMount{Name: "shared", MountPath: "/shared"})
		}
	}
	return spec
}

func (c scenario) initOrder() {
	t := c.t
	ns := c.namespace(t)
	spec := podSpec(script("main", "echo main >>/shared/order; cat /shared/order"))
	spec.InitContainers = []corev1.Container{
		script("first", "sleep 0.3; echo first >>/shared/order"),
		script("second", "echo second >>/shared/order"),
	}
	pod, log := c.runPod(t, ns, shared(spec))
	if want := "first\nsecond\nmain\n"; log != want {
		t.Errorf("order is %q, want %q", log, want)
	}
	if pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("pod is %s", describe(pod))
	}
}

func (c scenario) initFails() {
	t := c.t
	ns := c.namespace(t)
	spec := podSpec(script("main", "echo never"))
	spec.InitContainers = []corev1.Container{script("first", "exit 66"), script("second", "exit 0")}
	c.createPod(t, ns, spec)
	pod := c.waitPod(t, ns, "pod", "the pod has ended", ended)
	if pod.Status.Phase != corev1.PodFailed {
		t.Errorf("pod is %s", describe(pod))
	}
	if state := pod.Status.InitContainerStatuses[0].State.Terminated; state == nil || state.ExitCode != 66 {
		t.Errorf("first init container ended with %+v, want 66", state)
	}
	for _, status := range []corev1.ContainerStatus{pod.Status.InitContainerStatuses[1], pod.Status.ContainerStatuses[0]} {
		if status.State.Waiting == nil || status.State.Waiting.Reason != "PodInitializing" {
			t.Errorf("%s is %s, want waiting for PodInitializing", status.Name, status.State.String())
		}
	}
}

func (c scenario) environment() {
	t := c.t
	ns := c.namespace(t)
	c.createSecret(t, ns, "secret", map[string]string{"password": "hunter2", "USER": "ada"})
	c.createConfigMap(t, ns, "config", map[string]string{"LEVEL": "debug"})
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	main := script("main", "env | grep -v -e ^PATH= -e ^KUBERNETES -e ^PWD= | sort; echo $1 $(test -n \"$KUBERNETES_SERVICE_PORT\" && echo $KUBERNETES_SERVICE_HOST)")
	main.Args = append(main.Args, "sh", "argument of $(NAME), $$(NAME) and $(UNKNOWN)")
	main.EnvFrom = []corev1.EnvFromSource{
		{Prefix: "S_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "secret"}}},
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}},
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: new(true)}},
	}
	main.Env = []corev1.EnvVar{
		{Name: "NAME", ValueFrom: field("metadata.name")},
		{Name: "NAMESPACE", ValueFrom: field("metadata.namespace")},
		{Name: "LABEL", ValueFrom: field("metadata.labels['app']")},
		{Name: "NODE", ValueFrom: field("spec.nodeName")},
		{Name: "ACCOUNT", ValueFrom: field("spec.serviceAccountName")},
		{Name: "LEVEL", Value: "over $(LEVEL)"},
		{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "secret"}, Key: "password",
		}}},
		{Name: "OPTIONAL", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "secret"}, Key: "none", Optional: new(true),
		}}},
		{Name: "MEMORY", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{
			Resource: "limits.memory", Divisor: resource.MustParse("1Mi"),
		}}},
		{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu"}}},
	}
	main.Resources = corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
	}
	_, log := c.runPod(t, ns, podSpec(main))
	want := strings.Join([]string{
		"ACCOUNT=default", "CPU=1", "FROM_IMAGE=yes", "HOME=/", "HOSTNAME=pod", "LABEL=one", "LEVEL=over debug", "MEMORY=512", "NAME=pod",
		"NAMESPACE=" + ns, "NODE=simulator", "SECRET=hunter2", "S_USER=ada", "S_password=hunter2",
		"argument of pod, $(NAME) and $(UNKNOWN) 127.0.0.1", "",
	}, "\n")
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func (c scenario) volumes() {
	t := c.t
	ns := c.namespace(t)
	c.createSecret(t, ns, "secret", map[string]string{"config": "[profile]\n", "credentials": "keys\n"})
	c.createConfigMap(t, ns, "config", map[string]string{"a": "A\n", "b": "B\n"})
	main := script("main", `ls -a /secret; cat /secret/config; stat -L -c %a /secret/credentials
cat /config/deep/b; ls /config
cat /one-file
cat /pod/labels; echo; cat /pod/annotations; echo
cat /sub/file; ls /whole
echo x 2>/dev/null >/secret/new || echo secret is read-only
echo x 2>/dev/null >/read-only/new || echo emptyDir is read-only
ls -l /dev/termination-log | cut -c1-1`)
	spec := shared(podSpec(main))
	spec.InitContainers = []corev1.Container{script("init", "mkdir -p /shared/sub; echo in sub >/shared/sub/file")}
	spec.InitContainers[0].VolumeMounts = []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
	spec.Volumes = append(spec.Volumes,
		corev1.Volume{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret", DefaultMode: new(int32(0o400))}}},
		corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "config"}, Items: []corev1.KeyToPath{{Key: "b", Path: "deep/b"}},
		}}},
		corev1.Volume{Name: "all", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
		corev1.Volume{Name: "pod", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			{Path: "annotations", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}},
		}}}},
		corev1.Volume{Name: "none", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "none", Optional: new(true)}}},
	)
	spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "secret", MountPath: "/secret"},
		corev1.VolumeMount{Name: "config", MountPath: "/config"},
		corev1.VolumeMount{Name: "all", MountPath: "/one-file", SubPath: "a"},
		corev1.VolumeMount{Name: "pod", MountPath: "/pod"},
		corev1.VolumeMount{Name: "shared", MountPath: "/sub", SubPath: "sub"},
		corev1.VolumeMount{Name: "shared", MountPath: "/read-only", ReadOnly: true},
		corev1.VolumeMount{Name: "none", MountPath: "/none"},
		corev1.VolumeMount{Name: "shared", MountPath: "/whole"},
	)
	_, log := c.runPod(t, ns, spec)
	lines := strings.Split(log, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "..2") {
			lines[i] = "(time)"
		}
	}
	want := strings.Join([]string{
		".", "..", "(time)", "..data", "config", "credentials", "[profile]", "400",
		"B", "deep",
		"A",
		`app="one"`, `note="a \"quoted\" one"`,
		"in sub", "sub",
		"secret is read-only", "emptyDir is read-only", "-", "",
	}, "\n")
	if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}

func (c scenario) nestedMount() {
	t := c.t
	ns := c.namespace(t)
	c.createConfigMap(t, ns, "config", map[string]string{"main.tf": "module\n"})
	spec := podSpec(script("main", `cd /workspace/modules-repository
ls; cat environments/one/main.tf
cp -r environments/one run && cat run/main.tf && echo more >>run/main.tf
echo x 2>/dev/null >environments/one/new || echo read-only`))
	spec.InitContainers = []corev1.Container{script("git-clone", "mkdir -p /workspace/modules-repository/modules; test ! -e /workspace/modules-repository/environments/one")}
	spec.InitContainers[0].VolumeMounts = []corev1.VolumeMount{{Name: "workspace", MountPath: "/workspace"}}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
		{Name: "config", MountPath: "/workspace/modules-repository/environments/one", ReadOnly: true},
		{Name: "workspace", MountPath: "/workspace"},
	}
	spec.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false)}
	spec.Volumes = []corev1.Volume{
		{Name: "workspace", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
	}
	pod, log := c.runPod(t, ns, spec)
	if want := "environments\nmodules\nmodule\nmodule\nread-only\n"; log != want || pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("log is %q, want %q; pod is %s", log, want, describe(pod))
	}
}

func (c scenario) secretsStayInMemory() {
	t := c.t
	ns := c.namespace(t)
	const canary = "canary-8d1f0c4e"
	c.createSecret(t, ns, "secret", map[string]string{"key": canary})
	main := script("main", "test \"$(cat /secret/key)\" = \"$KEY\" && echo seen; trap 'exit 0' TERM; while :; do sleep 0.05; done")
	main.Env = []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "secret"}, Key: "key",
	}}}}
	main.VolumeMounts = []corev1.VolumeMount{{Name: "secret", MountPath: "/secret"}}
	spec := podSpec(main)
	spec.Volumes = []corev1.Volume{{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}}}}
	pod := c.createPod(t, ns, spec)
	until(t, "the container has seen the secret", func() bool {
		stream, err := c.client.CoreV1().Pods(ns).GetLogs("pod", &corev1.PodLogOptions{}).DoRaw(t.Context())
		return err == nil && strings.Contains(string(stream), "seen")
	})
	memory := c.dir + "/memory/" + string(pod.UID)
	if found := onDisk(t, memory, canary); len(found) == 0 {
		t.Error("the secret is not where it should be: the search is of no use")
	}
	for _, path := range onDisk(t, c.dir, canary) {
		if !strings.HasPrefix(path, memory) {
			t.Errorf("the secret is on disk, in %s", path)
		}
	}
}

func (c scenario) token() {
	t := c.t
	ns := c.namespace(t)
	_, err := c.client.RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.client.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: ns}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := podSpec(script("main", `cd /var/run/secrets/kubernetes.io/serviceaccount
api=https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/$(cat namespace)
code() { curl -s -o /dev/null -w '%{http_code}' --cacert ca.crt -H "Authorization: Bearer $(cat token)" "$1"; }
echo $(code $api/configmaps) $(code $api/secrets)`))
	spec.AutomountServiceAccountToken = new(true)
	_, log := c.runPod(t, ns, spec)
	if want := "200 403\n"; log != want {
		t.Errorf("the token was answered with %q, want %q", log, want)
	}
}

func (c scenario) gracefulDeletion() {
	t := c.t
	ns := c.namespace(t)
	c.createJob(t, ns, podSpec(script("main", "trap 'echo interrupted; sleep 1; echo cleaned up; exit 7' TERM; echo ready; while :; do sleep 0.05; done")))
	name := c.jobPod(t, ns).Name
	c.waitPod(t, ns, name, "the pod runs", running)
	c.waitLine(t, ns, name, "ready")
	if err := c.client.BatchV1().Jobs(ns).Delete(t.Context(), "job", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}); err != nil {
		t.Fatal(err)
	}
	c.waitLine(t, ns, name, "interrupted")
	pod, err := c.client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || pod.DeletionTimestamp == nil || ended(pod) {
		t.Errorf("while it cleans up the pod is %s (%v), want it there and running", describe(pod), err)
	}
	if _, err := c.client.BatchV1().Jobs(ns).Get(t.Context(), "job", metav1.GetOptions{}); err != nil {
		t.Errorf("while its pod cleans up the job is gone: %v", err)
	}
	// The log can be followed until the end, although the pod is deleted.
	if log := c.log(t, ns, name, corev1.PodLogOptions{Follow: true}); !strings.HasSuffix(log, "cleaned up\n") {
		t.Errorf("log is %q, want all of it", log)
	}
	c.waitGone(t, ns, name)
	until(t, "the job is gone", func() bool {
		_, err := c.client.BatchV1().Jobs(ns).Get(t.Context(), "job", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// waitLine waits until a pod's log has a line.
func (c *cluster) waitLine(t *testing.T, namespace, pod, line string) {
	t.Helper()
	var log []byte
	untilOr(t, "a line "+line, func() bool {
		var err error
		log, err = c.client.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(t.Context())
		return err == nil && strings.Contains("\n"+string(log), "\n"+line+"\n")
	}, func() string { return string(log) })
}

// deaf is a script that ignores SIGTERM.
const deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done"

func (c scenario) forcedEnd() {
	t := c.t
	ns := c.namespace(t)
	spec := podSpec(script("main", deaf))
	// The finalizer keeps the object, so that its last state can be seen.
	pod := c.createPod(t, ns, spec)
	c.patch(t, ns, `{"metadata":{"finalizers":["kubeopera.io/test"]}}`)
	c.waitLine(t, ns, "pod", "ready")
	deleted := time.Now()
	if err := c.client.CoreV1().Pods(ns).Delete(t.Context(), "pod", metav1.DeleteOptions{GracePeriodSeconds: new(int64(2))}); err != nil {
		t.Fatal(err)
	}
	pod = c.waitPod(t, ns, pod.Name, "the pod has ended", ended)
	if took := time.Since(deleted); took < 2*time.Second || took > 15*time.Second {
		t.Errorf("the pod ended after %s, want a little over 2 s", took)
	}
	if state := pod.Status.ContainerStatuses[0].State.Terminated; pod.Status.Phase != corev1.PodFailed || state == nil || state.ExitCode != 137 {
		t.Errorf("pod is %s, want Failed with 137", describe(pod))
	}
	c.patch(t, ns, `{"metadata":{"finalizers":null}}`)
	c.waitGone(t, ns, "pod")
}

func (c *cluster) patch(t *testing.T, namespace, patch string) {
	t.Helper()
	if _, err := c.client.CoreV1().Pods(namespace).Patch(t.Context(), "pod", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c scenario) shortenedGrace() {
	t := c.t
	ns := c.namespace(t)
	c.createPod(t, ns, podSpec(script("main", deaf)))
	c.waitLine(t, ns, "pod", "ready")
	for _, seconds := range []int64{600, 1} {
		if err := c.client.CoreV1().Pods(ns).Delete(t.Context(), "pod", metav1.DeleteOptions{GracePeriodSeconds: &seconds}); err != nil {
			t.Fatal(err)
		}
	}
	c.waitGone(t, ns, "pod")
}

func (c scenario) terminationMessage() {
	t := c.t
	ns := c.namespace(t)
	own := script("own", "head -c 5000 /dev/zero | tr '\\0' x >/dev/termination-log; printf END >>/dev/termination-log; exit 1")
	fallback := script("fallback", "echo first; echo the reason; exit 1")
	fallback.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	path := script("path", "printf elsewhere >/tmp/message; exit 0")
	path.TerminationMessagePath = "/tmp/message"
	none := script("none", "echo a log is no message; exit 1")
	pod, _ := c.runPod(t, ns, podSpec(own, fallback, path, none))
	got := map[string]string{}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Terminated == nil {
			t.Fatalf("pod is %s", describe(pod))
		}
		got[status.Name] = status.State.Terminated.Message
	}
	want := map[string]string{
		"own": strings.Repeat("x", 4093) + "END", "fallback": "first\nthe reason\n", "path": "elsewhere", "none": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func (c scenario) unknownImage() {
	t := c.t
	ns := c.namespace(t)
	main := script("main", "echo late")
	main.Image = "registry.test/late:1"
	c.createPod(t, ns, podSpec(main))
	pod := c.waitPod(t, ns, "pod", "the pod waits for its image", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Waiting != nil &&
			pod.Status.ContainerStatuses[0].State.Waiting.Reason == "ImagePullBackOff"
	})
	if message := pod.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(message, "registry.test/late:1: not found") || pod.Status.Phase != corev1.PodPending {
		t.Errorf("pod is %s, want it Pending with the reason", describe(pod))
	}
	c.waitEvent(t, ns, "Failed", `Failed to pull image "registry.test/late:1"`)
	c.waitEvent(t, ns, "BackOff", "Back-off pulling image")
	c.node.AddImage("registry.test/late:1", shell())
	c.waitPod(t, ns, "pod", "the pod has succeeded", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	c.node.RemoveImage("registry.test/late:1")
}

func (c scenario) missingSecretVolume() {
	t := c.t
	ns := c.namespace(t)
	main := script("main", "cat /secret/key")
	main.VolumeMounts = []corev1.VolumeMount{{Name: "credential", MountPath: "/secret"}}
	spec := podSpec(main)
	spec.Volumes = []corev1.Volume{{Name: "credential", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "late"}}}}
	c.createPod(t, ns, spec)
	c.waitEvent(t, ns, "FailedMount", `MountVolume.SetUp failed for volume "credential" : secret "late" not found`)
	pod := c.waitPod(t, ns, "pod", "the pod has a status", func(pod *corev1.Pod) bool { return len(pod.Status.ContainerStatuses) == 1 })
	if waiting := pod.Status.ContainerStatuses[0].State.Waiting; pod.Status.Phase != corev1.PodPending || waiting == nil || waiting.Reason != "ContainerCreating" {
		t.Errorf("pod is %s, want it to wait in ContainerCreating", describe(pod))
	}
	c.createSecret(t, ns, "late", map[string]string{"key": "value"})
	c.waitPod(t, ns, "pod", "the pod has succeeded", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
}

func (c scenario) missingKey() {
	t := c.t
	ns := c.namespace(t)
	c.createSecret(t, ns, "secret", map[string]string{"other": "value"})
	main := script("main", "true")
	main.Env = []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "secret"}, Key: "key",
	}}}}
	c.createPod(t, ns, podSpec(main))
	pod := c.waitPod(t, ns, "pod", "the container waits", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Waiting != nil &&
			pod.Status.ContainerStatuses[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
	if got, want := pod.Status.ContainerStatuses[0].State.Waiting.Message, "couldn't find key key in Secret "+ns+"/secret"; got != want {
		t.Errorf("message is %q, want %q", got, want)
	}
}

func (c scenario) deadline() {
	t := c.t
	ns := c.namespace(t)
	spec := podSpec(script("main", "trap 'exit 3' TERM; while :; do sleep 0.05; done"))
	spec.ActiveDeadlineSeconds = new(int64(2))
	c.createJob(t, ns, spec)
	c.waitJob(t, ns, batchv1.JobFailed)
	pod := c.jobPod(t, ns)
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "DeadlineExceeded" || !strings.Contains(pod.Status.Message, "longer than the specified deadline") {
		t.Errorf("pod is %s, want DeadlineExceeded", describe(pod))
	}
	if state := pod.Status.ContainerStatuses[0].State.Terminated; state == nil || state.ExitCode != 3 {
		t.Errorf("container ended with %+v, want the exit code of its SIGTERM handler", state)
	}
}

func (c scenario) eviction() {
	t := c.t
	ns := c.namespace(t)
	c.createPod(t, ns, podSpec(script("main", deaf)))
	c.waitLine(t, ns, "pod", "ready")
	if err := c.node.Evict(ns, "pod", "The node was low on resource: memory."); err != nil {
		t.Fatal(err)
	}
	pod := c.waitPod(t, ns, "pod", "the pod has ended", ended)
	if pod.Status.Reason != "Evicted" || pod.Status.Message != "The node was low on resource: memory." {
		t.Errorf("pod is %s, want Evicted", describe(pod))
	}
	disrupted := false
	for _, condition := range pod.Status.Conditions {
		disrupted = disrupted || condition.Type == corev1.DisruptionTarget && condition.Reason == corev1.PodReasonTerminationByKubelet
	}
	if !disrupted {
		t.Errorf("conditions are %+v, want a DisruptionTarget", pod.Status.Conditions)
	}
	if err := c.node.Evict(ns, "other", ""); !errors.Is(err, node.ErrNotFound) {
		t.Errorf("eviction of an unknown pod gave %v, want ErrNotFound", err)
	}
}

func (c scenario) outOfMemory() {
	t := c.t
	ns := c.namespace(t)
	c.createPod(t, ns, podSpec(script("main", "printf early >/dev/termination-log; "+deaf)))
	c.waitLine(t, ns, "pod", "ready")
	if err := c.node.KillOutOfMemory(ns, "pod", "main"); err != nil {
		t.Fatal(err)
	}
	pod := c.waitPod(t, ns, "pod", "the pod has ended", ended)
	state := pod.Status.ContainerStatuses[0].State.Terminated
	if state == nil || state.Reason != "OOMKilled" || state.ExitCode != 137 || state.Message != "early" {
		t.Errorf("container ended with %+v, want OOMKilled, 137 and its early message", state)
	}
}

func (c scenario) followedLog() {
	t := c.t
	ns := c.namespace(t)
	c.createPod(t, ns, shared(podSpec(script("main", "echo one; until test -e /shared/go; do sleep 0.02; done; echo two; printf three"), script("other", "read line </dev/null; sleep 1; touch /shared/go"))))
	c.waitPod(t, ns, "pod", "the pod runs", running)
	stream, err := c.client.CoreV1().Pods(ns).GetLogs("pod", &corev1.PodLogOptions{Container: "main", Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	lines := bufio.NewScanner(stream)
	var got []string
	for lines.Scan() {
		if len(got) == 0 {
			pod, err := c.client.CoreV1().Pods(ns).Get(t.Context(), "pod", metav1.GetOptions{})
			if err != nil || ended(pod) {
				t.Errorf("the first line came only when the pod had ended (%v)", err)
			}
		}
		got = append(got, lines.Text())
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, got); diff != "" || lines.Err() != nil {
		t.Errorf("followed log (-want +got), %v:\n%s", lines.Err(), diff)
	}
}

func (c scenario) logOptions() {
	t := c.t
	ns := c.namespace(t)
	pod, _ := c.runPod(t, ns, podSpec(script("main", "echo one; echo two; sleep 1.2; echo three"), script("other", "echo other >&2")))
	finished := pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt
	for name, tt := range map[string]struct {
		options corev1.PodLogOptions
		want    string
	}{
		"tail":           {options: corev1.PodLogOptions{Container: "main", TailLines: new(int64(2))}, want: "two\nthree\n"},
		"no lines":       {options: corev1.PodLogOptions{Container: "main", TailLines: new(int64(0))}, want: ""},
		"container":      {options: corev1.PodLogOptions{Container: "other"}, want: "other\n"},
		"limit":          {options: corev1.PodLogOptions{Container: "main", LimitBytes: new(int64(5))}, want: "one\nt"},
		"since":          {options: corev1.PodLogOptions{Container: "main", SinceTime: &finished}, want: "three\n"},
		"ended, follow":  {options: corev1.PodLogOptions{Container: "main", Follow: true}, want: "one\ntwo\nthree\n"},
		"follow a limit": {options: corev1.PodLogOptions{Container: "main", Follow: true, LimitBytes: new(int64(3))}, want: "one"},
	} {
		if got := c.log(t, ns, "pod", tt.options); got != tt.want {
			t.Errorf("%s: log is %q, want %q", name, got, tt.want)
		}
	}
	stamped := c.log(t, ns, "pod", corev1.PodLogOptions{Container: "other", Timestamps: true})
	stamp, text, _ := strings.Cut(stamped, " ")
	if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil || text != "other\n" {
		t.Errorf("log with time is %q (%v)", stamped, err)
	}
}

func (c scenario) logOfWaiting() {
	t := c.t
	ns := c.namespace(t)
	main := script("main", "true")
	main.Image = "registry.test/unknown:1"
	spec := podSpec(main)
	spec.InitContainers = []corev1.Container{script("init", "until test -e /go; do sleep 0.05; done")}
	c.createPod(t, ns, spec)
	c.waitPod(t, ns, "pod", "the init container runs", func(pod *corev1.Pod) bool {
		return len(pod.Status.InitContainerStatuses) == 1 && pod.Status.InitContainerStatuses[0].State.Running != nil
	})
	_, err := c.client.CoreV1().Pods(ns).GetLogs("pod", &corev1.PodLogOptions{Container: "main"}).Stream(t.Context())
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `container "main" in pod "pod" is waiting to start: PodInitializing`) {
		t.Errorf("the log gave %v, want a refusal with the reason", err)
	}
}

func (c scenario) unschedulable() {
	t := c.t
	ns := c.namespace(t)
	main := script("main", "true")
	main.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Ti")}
	spec := podSpec(main)
	spec.NodeSelector = map[string]string{"pool": "other"}
	c.createPod(t, ns, spec)
	const problem = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 Insufficient memory."
	c.waitEvent(t, ns, "FailedScheduling", problem)
	c.waitPod(t, ns, "pod", "the pod says why it does not run", func(pod *corev1.Pod) bool {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return condition.Reason == corev1.PodReasonUnschedulable && condition.Message == problem
			}
		}
		return false
	})
}

func (c scenario) restart() {
	t := c.t
	ns := c.namespace(t)
	spec := shared(podSpec(script("main", "echo run >>/shared/runs; echo log of run $(wc -l </shared/runs); test $(wc -l </shared/runs) -ge 3")))
	spec.RestartPolicy = corev1.RestartPolicyOnFailure
	pod, log := c.runPod(t, ns, spec)
	status := pod.Status.ContainerStatuses[0]
	if pod.Status.Phase != corev1.PodSucceeded || status.RestartCount != 2 || status.LastTerminationState.Terminated == nil {
		t.Errorf("pod is %s after %d restarts, want Succeeded after 2", describe(pod), status.RestartCount)
	}
	if log != "log of run 3\n" {
		t.Errorf("log is %q, want that of the last run", log)
	}
	if previous := c.log(t, ns, "pod", corev1.PodLogOptions{Previous: true}); previous != "log of run 2\n" {
		t.Errorf("previous log is %q, want that of the run before", previous)
	}
}

func (c scenario) startError() {
	t := c.t
	ns := c.namespace(t)
	main := script("main", "")
	main.Command = []string{"no-such-command"}
	main.Args = nil
	c.createPod(t, ns, podSpec(main))
	pod := c.waitPod(t, ns, "pod", "the pod has ended", ended)
	state := pod.Status.ContainerStatuses[0].State.Terminated
	if state == nil || state.ExitCode != 128 || state.Reason != "StartError" || !strings.Contains(state.Message, `"no-such-command": executable file not found in $PATH`) {
		t.Errorf("container ended with %+v, want StartError with the reason", state)
	}
}

func (c scenario) fileSystem() {
	t := c.t
	ns := c.namespace(t)
	read := script("read", "touch /new 2>/dev/null || echo read-only; touch /tmp/new 2>/dev/null || echo no /tmp; echo message >/dev/termination-log && echo message; cat /etc/hostname; ls "+c.dir+" 2>/dev/null || echo no path of the machine")
	read.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true)}
	write := script("write", "touch /new && pwd && grep -c pod /etc/hosts")
	write.WorkingDir = "/some/where"
	c.createPod(t, ns, podSpec(read, write))
	c.waitPod(t, ns, "pod", "the pod has ended", ended)
	if got, want := c.log(t, ns, "pod", corev1.PodLogOptions{Container: "read"}), "read-only\nno /tmp\nmessage\npod\nno path of the machine\n"; got != want {
		t.Errorf("read-only root: %q, want %q", got, want)
	}
	if got, want := c.log(t, ns, "pod", corev1.PodLogOptions{Container: "write"}), "/some/where\n1\n"; got != want {
		t.Errorf("writable root: %q, want %q", got, want)
	}
}

func (c scenario) severalContainers() {
	t := c.t
	ns := c.namespace(t)
	spec := shared(podSpec(
		script("one", "until test -e /shared/two; do sleep 0.02; done; touch /shared/one"),
		script("two", "touch /shared/two; until test -e /shared/one; do sleep 0.02; done; exit 4")))
	c.createPod(t, ns, spec)
	pod := c.waitPod(t, ns, "pod", "the pod has ended", ended)
	if pod.Status.Phase != corev1.PodFailed || pod.Status.ContainerStatuses[1].State.Terminated.ExitCode != 4 {
		t.Errorf("pod is %s, want Failed by its second container", describe(pod))
	}
}

func (c scenario) deletedWhileCreating() {
	t := c.t
	ns := c.namespace(t)
	main := script("main", "true")
	main.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/config"}}
	spec := podSpec(main)
	spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}}}}}
	c.createPod(t, ns, spec)
	c.waitEvent(t, ns, "FailedMount", `configmap "none" not found`)
	if err := c.client.CoreV1().Pods(ns).Delete(t.Context(), "pod", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitGone(t, ns, "pod")
}

func (c scenario) removedObject() {
	t := c.t
	ns := c.namespace(t)
	spec := podSpec(script("main", "trap 'sleep 1; touch /host/ended; exit 0' TERM; echo ready; while :; do sleep 0.05; done"))
	dir := t.TempDir()
	spec.Volumes = []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: "/host"}}
	c.createPod(t, ns, spec)
	c.waitLine(t, ns, "pod", "ready")
	if err := c.client.CoreV1().Pods(ns).Delete(t.Context(), "pod", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	c.waitGone(t, ns, "pod")
	if len(onDisk(t, dir, "")) > 0 {
		t.Error("the process ended with its object")
	}
	until(t, "the process has ended in its own time", func() bool { return len(onDisk(t, dir, "")) == 1 })
}

func (c scenario) paused() {
	t := c.t
	ns := c.namespace(t)
	// The container's own counter goes on whatever the kubelet does.
	dir := t.TempDir()
	spec := podSpec(script("main", "trap 'touch /host/told' TERM; echo ready; while :; do date +%s%N >/host/now; sleep 0.05; done"))
	spec.Volumes = []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: "/host"}}
	c.createPod(t, ns, spec)
	c.waitLine(t, ns, "pod", "ready")
	follow, err := c.client.CoreV1().Pods(ns).GetLogs("pod", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer follow.Close()

	c.node.Pause()
	t.Cleanup(c.node.Resume)
	c.node.Pause()            // once is enough
	_, _ = io.ReadAll(follow) // it ends; kube-apiserver does not tell how
	if _, err := c.client.CoreV1().Pods(ns).GetLogs("pod", &corev1.PodLogOptions{}).DoRaw(t.Context()); err == nil {
		t.Error("a paused kubelet gives logs")
	}
	other := c.namespace(t)
	c.createPod(t, other, podSpec(script("main", "exit 0")))
	for _, seconds := range []int64{2, 1} {
		if err := c.client.CoreV1().Pods(ns).Delete(t.Context(), "pod", metav1.DeleteOptions{GracePeriodSeconds: &seconds}); err != nil {
			t.Fatal(err)
		}
	}
	// Longer than either grace period.
	deleted := time.Now()
	until(t, "the container has gone on for 3 s", func() bool {
		now, err := os.ReadFile(filepath.Join(dir, "now"))
		return err == nil && nanoseconds(string(now)) > deleted.Add(3*time.Second).UnixNano()
	})
	if _, err := os.Stat(filepath.Join(dir, "told")); err == nil {
		t.Error("the container was told to end")
	}
	pod, err := c.client.CoreV1().Pods(ns).Get(t.Context(), "pod", metav1.GetOptions{})
	if err != nil || *pod.DeletionGracePeriodSeconds != 1 || ended(pod) {
		t.Errorf("the pod is %s (%v), want it there, deleted with 1 s", describe(pod), err)
	}
	if pod, err := c.client.CoreV1().Pods(other).Get(t.Context(), "pod", metav1.GetOptions{}); err != nil || pod.Status.Phase != corev1.PodPending {
		t.Errorf("the new pod is %s (%v), want it pending", describe(pod), err)
	}

	c.node.Resume()
	c.waitGone(t, ns, "pod")
	if _, err := os.Stat(filepath.Join(dir, "told")); err != nil {
		t.Errorf("the container was killed without a word: %v", err)
	}
	c.waitPod(t, other, "pod", "the new pod has ended", ended)
}

// nanoseconds reads a time that date has written; 0: it was being written.
func nanoseconds(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n
}
