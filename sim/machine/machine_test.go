package machine_test

import (
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

func TestAnInstanceRunsItsUserData(t *testing.T) {
	m := launch(t, `#!/bin/bash
set -eu -o pipefail
echo "I am $(hostname) with uid $(id -u)"
token=$(curl -sS -f -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token)
echo "instance $(curl -sS -f -H "X-aws-ec2-metadata-token: $token" http://169.254.169.254/latest/meta-data/instance-id)"
echo "without a token $(curl -sS -o /dev/null -w '%{http_code}' http://169.254.169.254/latest/meta-data/)"
. /etc/kubeopera/bootstrap.override
echo "gateway $(curl -sS -o /dev/null -w '%{http_code}' $AWS_ENDPOINT_URL/)"
curl -sS -f https://pkgs.k8s.io/core:/stable:/v1.35/deb/Release.key | grep -o 'with fingerprint'
curl -sS -f https://example.com/ || echo "no other web"
if command -v kubectl kubeadm kubelet; then echo "installed too early"; fi
openssl version
mktemp
echo "boot $(cat /proc/sys/kernel/random/boot_id)"
echo kept >/var/lib/kept
cat >/etc/systemd/system/again.service <<END
[Unit]
After=cloud-final.service
[Service]
Type=oneshot
ExecStart=/bin/bash -c 'echo boot \$(cat /proc/sys/kernel/random/boot_id), disk \$(cat /var/lib/kept), memory \$(ls /run/mine /tmp/mine 2>/dev/null | wc -l)'
[Install]
WantedBy=multi-user.target
END
touch /run/mine /tmp/mine
systemctl enable again.service
systemctl start --no-block again.service
echo the end
`)
	prints(t, m, ", disk kept, memory")
	log, err := m.Log()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"I am " + nodeName(m) + " with uid 0", "instance " + m.ID(), "without a token 401", "gateway 403", "with fingerprint",
		"no other web", "OpenSSL", "the end",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the console does not have %q", want)
		}
	}
	if strings.Contains(log, "installed too early") {
		t.Error("a fresh machine has what packages bring")
	}

	if err := m.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the unit ran again", func() bool {
		log, err = m.Log()
		return err == nil && strings.Count(log, ", disk kept, memory") == 2
	})
	if strings.Count(log, "the end") != 1 {
		t.Error("user_data ran at the second boot")
	}
	if !strings.Contains(log, "memory 0") {
		t.Error("/run and /tmp outlive a reboot")
	}
	_, first, _ := strings.Cut(log, "]: boot ")
	id, _, _ := strings.Cut(first, "\n")
	if strings.Count(log, id) == 0 || strings.Count(log, "boot "+id+", disk") != 1 {
		t.Errorf("boot id %q is not of one boot only", id)
	}
}

func TestAMachineFollowsItsInstance(t *testing.T) {
	m := launch(t, "#!/bin/sh\necho up\n")
	prints(t, m, "up")
	c := client(t)
	if _, err := c.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{m.ID()}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the machine is off", func() bool { return !m.Running() })
	if _, err := c.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{m.ID()}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the machine is on", m.Running)
	if err := m.Terminate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.Running() {
		t.Error("the machine of a terminated instance runs")
	}
	if _, err := os.Stat(m.LogFile()); err != nil {
		t.Errorf("its log is gone: %v", err)
	}
	until(t, "its last state is seen", func() bool { return m.Instance().State == "terminated" })
}
