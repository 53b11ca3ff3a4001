package joinfault

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

// The AWS CLI as the scripts set it up: AWS_RETRY_MODE=standard, AWS_MAX_ATTEMPTS=8,
// and the read timeout that is its default.
const (
	maxAttempts = 8
	readTimeout = time.Minute
	maxBackoff  = 20 * time.Second
)

func (c *call) aws() {
	switch strings.Join(c.args[1:3], " ") {
	case "ssm get-parameters":
		c.getParameters()
	case "ssm put-parameter":
		c.putParameter()
	case "ec2 describe-instances":
		c.describeInstances()
	default:
		c.fail(252, "aws: error: argument operation: Invalid choice: %q", c.args[1:])
	}
}

// values are those of an option that takes several.
func (c *call) values(option string) []string {
	from := slices.Index(c.args, option)
	if from < 0 {
		return nil
	}
	var values []string
	for _, arg := range c.args[from+1:] {
		if strings.HasPrefix(arg, "--") {
			break
		}
		values = append(values, arg)
	}
	return values
}

func (c *call) getParameters() {
	if query := c.option("--query"); query != "Parameters[].[Name,Value]" || c.option("--output") != "text" {
		c.fail(252, "the stand-in has no query %q", query)
	}
	names := c.values("--names")
	answer := c.request("ssm", "GetParameters", strings.Join(names, " "), map[string]any{"Names": names, "WithDecryption": c.has("--with-decryption")})
	var out struct {
		Parameters []struct{ Name, Value string }
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		c.fail(255, "%v", err)
	}
	for _, p := range out.Parameters {
		c.print("%s\t%s\n", p.Name, p.Value)
	}
}

func (c *call) putParameter() {
	value, err := os.ReadFile(strings.TrimPrefix(c.option("--value"), "file://"))
	if err != nil {
		c.fail(252, "Error parsing parameter '--value': %v", err)
	}
	c.request("ssm", "PutParameter", c.option("--name"), map[string]any{
		"Name": c.option("--name"), "Value": string(value), "Type": c.option("--type"), "Tier": c.option("--tier"), "Overwrite": c.has("--overwrite"),
	})
}

// request sends a request as often as the CLI does, and gives its answer.
func (c *call) request(service, operation, resource string, input any) []byte {
	body, err := json.Marshal(input)
	if err != nil {
		c.fail(255, "%v", err)
	}
	for attempt := 1; ; attempt++ {
		problem, answer := c.attempt(service, operation, resource, body)
		if problem == nil {
			return answer
		}
		retryable := problem.Status >= http.StatusInternalServerError || problem.Code == "ThrottlingException" || problem.Code == "RequestLimitExceeded"
		if !retryable || attempt == maxAttempts {
			reached := ""
			if retryable {
				reached = " (reached max retries: 7)"
			}
			if problem.Code == lostConnection {
				c.fail(255, "\n%s", problem.Message)
			}
			c.fail(254, "\nAn error occurred (%s) when calling the %s operation%s: %s", problem.Code, operation, reached, problem.Message)
		}
		c.wait(min(time.Duration(c.world.random.Float64()*float64(time.Second)*float64(int(1)<<attempt)), maxBackoff))
	}
}

// lostConnection is the code of a request that got no answer.
const lostConnection = "no answer"

// attempt is one request. What it does happens half-way: a script that is killed
// may have done it or not.
func (c *call) attempt(service, operation, resource string, body []byte) (*protocol.Error, []byte) {
	lost := &protocol.Error{Status: 599, Code: lostConnection, Message: "Connection was closed before we received a valid response from endpoint URL."}
	travel := c.world.between(100*time.Millisecond, 600*time.Millisecond)
	c.wait(travel)
	do := c.world.parameterStore
	if service == "ec2" {
		do = c.world.ec2
	}
	for _, f := range c.world.faults.Match(faults.Call{Service: service, Operation: operation, AccessKeyID: c.machine.id, Resource: resource}) {
		switch f.Kind {
		case faults.KindDelay:
			if time.Duration(f.Delay) >= readTimeout {
				c.wait(readTimeout)
				_, _ = do(c, operation, body)
				lost.Message = "Read timeout on endpoint URL."
				return lost, nil
			}
			c.wait(time.Duration(f.Delay))
		case faults.KindError:
			c.wait(travel)
			return f.Error, nil
		case faults.KindDrop:
			c.wait(travel)
			return lost, nil
		case faults.KindLostAnswer:
			_, _ = do(c, operation, body)
			c.wait(travel)
			return lost, nil
		}
	}
	problem, answer := do(c, operation, body)
	c.wait(travel)
	return problem, answer
}

// parameterStore asks the fake.
func (w *World) parameterStore(c *call, operation string, body []byte) (*protocol.Error, []byte) {
	ctx := keyring.WithCaller(context.Background(), keyring.Caller{Region: region, PrincipalARN: "arn:aws:sts::" + accountID + ":assumed-role/" + c.machine.role() + "/" + c.machine.id})
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(body))
	request.Header.Set("X-Amz-Target", "AmazonSSM."+operation)
	recorder := httptest.NewRecorder()
	w.parameters.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK {
		problem := &protocol.Error{Status: recorder.Code, Code: recorder.Header().Get(protocol.ErrorCodeHeader)}
		if err := json.Unmarshal(recorder.Body.Bytes(), problem); err != nil {
			problem.Message = err.Error()
		}
		return problem, nil
	}
	if operation == "PutParameter" {
		var in struct{ Name, Value string }
		if err := json.Unmarshal(body, &in); err == nil {
			w.written(c.machine, strings.TrimPrefix(in.Name, prefix), in.Value)
		}
	}
	return nil, recorder.Body.Bytes()
}

// written follows what a machine wrote.
func (w *World) written(m *machine, name, value string) {
	shown := value
	switch name {
	case "join_token", "k8s_certificate_key", "admin_kubeconfig":
		shown = "..."
		w.secrets = append(w.secrets, value)
	case "cluster_state":
		w.published = w.published || strings.HasPrefix(value, "READY:")
	}
	w.note(m.name(), "writes %s = %s", name, shown)
}

func (c *call) describeInstances() {
	ids := c.values("--instance-ids")
	answer := string(c.request("ec2", "DescribeInstances", strings.Join(ids, " "), map[string]any{"ids": ids, "filters": c.values("--filters"), "query": c.option("--query")}))
	c.print("%s", answer)
}

// ec2 answers DescribeInstances with what the CLI would print of it.
func (w *World) ec2(_ *call, _ string, body []byte) (*protocol.Error, []byte) {
	var in struct {
		IDs, Filters []string
		Query        string
	}
	refuse := func(code, message string) (*protocol.Error, []byte) {
		return &protocol.Error{Status: http.StatusBadRequest, Code: code, Message: message}, nil
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return refuse("MalformedQueryString", err.Error())
	}
	var out bytes.Buffer
	for _, id := range in.IDs {
		i := slices.IndexFunc(w.machines, func(m *machine) bool { return m.id == id })
		switch {
		case !strings.HasPrefix(id, "i-"):
			return refuse("InvalidInstanceID.Malformed", "Invalid id: \""+id+"\"")
		case i < 0 || w.machines[i].launched+w.schedule.Unseen > w.now:
			return refuse("InvalidInstanceID.NotFound", "The instance ID '"+id+"' does not exist")
		}
		out.WriteString(w.machines[i].state + "\n")
	}
	if len(in.IDs) > 0 {
		if in.Query != "Reservations[].Instances[].State.Name" {
			return refuse("InvalidQuery", in.Query)
		}
		return nil, out.Bytes()
	}
	for _, m := range w.machines {
		if !m.matches(in.Filters) {
			continue
		}
		line := []string{m.id, m.ip}
		switch in.Query {
		case "Reservations[].Instances[].[InstanceId,PrivateIpAddress]":
		case "Reservations[].Instances[].[InstanceId,PrivateIpAddress,LaunchTime,Tags[?Key=='kubeopera.io/node']|[0].Value]":
			line = append(line, epoch.Add(m.launched).Format("2006-01-02T15:04:05+00:00"), m.tag())
		default:
			return refuse("InvalidQuery", in.Query)
		}
		out.WriteString(strings.Join(line, "\t") + "\n")
	}
	return nil, out.Bytes()
}

// tag is the value of kubeopera.io/node.
func (m *machine) tag() string {
	if m.worker {
		return "worker"
	}
	return strings.TrimPrefix(m.status(), "bootstrap_status/")
}

// matches says whether the filters of a request take the instance.
func (m *machine) matches(filters []string) bool {
	for _, filter := range filters {
		name, values, _ := strings.Cut(filter, ",Values=")
		of := map[string]string{
			"Name=tag:kubernetes.io/cluster/" + clusterName: "owned", "Name=tag:kubeopera.io/node": m.tag(), "Name=instance-state-name": m.state,
		}[name]
		if !slices.ContainsFunc(strings.Split(values, ","), func(value string) bool {
			begin, any := strings.CutSuffix(value, "*")
			return of == value || any && strings.HasPrefix(of, begin)
		}) {
			return false
		}
	}
	return true
}
