package aws_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/aws/gateway"
	"github.com/kubeopera/platform/sim/aws/sessionmanager"
)

const sessionInstance = "i-0a0b0c0d0e0f00001"

// The AWS CLI and its plugin reach a port of a machine, as an administrator's
// ProxyCommand has it, and operations that are not Session Manager's are answered
// as before.
func TestAWSCLIReachesAMachine(t *testing.T) {
	t.Parallel()
	account := theAccount(t)
	err := account.Sessions().Register(sessionmanager.Machine{
		InstanceID: sessionInstance, Region: region, Name: "machine", Platform: "Ubuntu", Version: "24.04",
		Dial: func(context.Context, string, int) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				_, _ = io.Copy(far, far) // until the agent closes its end
			}()
			return near, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := cli(t.Context(), t, keyID, account.URL(), append([]string{"ssm"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	got := must("describe-instance-information", "--filters", "Key=InstanceIds,Values="+sessionInstance, "--output", "text",
		"--query", "InstanceInformationList[].[InstanceId,PingStatus,PlatformName]")
	if got != sessionInstance+"\tOnline\tUbuntu" {
		t.Errorf("describe-instance-information: %q", got)
	}
	must("list-documents", "--max-items", "1") // the emulator's

	id := startByCLI(t, account.URL())
	if got := must("terminate-session", "--session-id", id, "--output", "text"); got != id {
		t.Errorf("terminate-session: %q", got)
	}
	list := must("describe-sessions", "--state", "History", "--filters", "key=Target,value="+sessionInstance, "--output", "text",
		"--query", "Sessions[].[SessionId,Status]")
	if list != id+"\tTerminated" {
		t.Errorf("describe-sessions: %q", list)
	}
	if _, err := cli(t.Context(), t, keyID, account.URL(), "ssm", "start-session", "--target", "i-0a0b0c0d0e0f00002",
		"--document-name", "AWS-StartSSHSession"); err == nil || !strings.Contains(err.Error(), "TargetNotConnected") {
		t.Errorf("another instance: %v", err)
	}
	if calls := account.Calls(gateway.CallFilter{Service: "ssmmessages", Operation: "OpenDataChannel"}); len(calls) == 0 || calls[0].Status != 101 {
		t.Errorf("recorded calls: %+v", calls)
	}
	if v := account.Sessions().Violations(); len(v) > 0 {
		t.Errorf("broken rules: %+v", v)
	}
}

// startByCLI starts a session through which data has passed and returns its id.
func startByCLI(t *testing.T, endpoint string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), filepath.Join("..", "..", "tools", "build"), "--cached", "session-manager-plugin").Output()
	if err != nil {
		skip.Missing(t, skip.SessionPlugin, "tools/build session-manager-plugin has not been run")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, theAccount(t).CLI(), "ssm", "start-session", "--target", sessionInstance,
		"--document-name", "AWS-StartSSHSession", "--parameters", "portNumber=22")
	path, _ := os.LookupEnv("PATH")
	cmd.Env = []string{
		"PATH=" + strings.TrimSpace(string(output)) + string(os.PathListSeparator) + path, "HOME=" + t.TempDir(),
		"AWS_DEFAULT_REGION=" + region, "AWS_EC2_METADATA_DISABLED=true", "AWS_ENDPOINT_URL=" + endpoint,
		"AWS_ACCESS_KEY_ID=" + keyID, "AWS_SECRET_ACCESS_KEY=" + keySecret,
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the plugin has ended with the session, and with it the CLI
		_ = stdin.Close()
		cancel()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	id := ""
	for lines.Scan() {
		if found, ok := strings.CutPrefix(lines.Text(), "Starting session with SessionId: "); ok {
			id = found
			if _, err := io.WriteString(stdin, "SSH-2.0-test\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		if lines.Text() == "SSH-2.0-test" {
			return id
		}
	}
	t.Fatalf("no echo from session %q: %v, %s", id, lines.Err(), stderr.String())
	return ""
}
