package guest

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// kubectl is the real one, but for `kubectl exec … -- etcdctl …`: no pod runs here,
// so the machine's host answers for etcd. Whether the pod is there, and whether
// the caller may see it, is still asked of the real API server.
func kubectl(ctx context.Context, args []string, io stdio) int {
	dashes := slices.Index(args, "--")
	if !slices.Contains(args[:max(dashes, 0)], "exec") {
		return runKubectl(ctx, args, io)
	}
	pod := ""
	var check []string
	for i := 0; i < dashes; i++ {
		switch arg := args[i]; {
		case arg == "exec":
			check = append(check, "get")
		case arg == "-c" || arg == "--container":
			i++
		case arg == "-i" || arg == "-t" || arg == "-it" || strings.HasPrefix(arg, "--container="):
		case arg == "-n" || arg == "--namespace" || arg == "--kubeconfig" || arg == "--server" || arg == "-s" || arg == "--context":
			check = append(check, arg, args[i+1])
			i++
		case strings.HasPrefix(arg, "-"):
			check = append(check, arg)
		default:
			pod = strings.TrimPrefix(strings.TrimPrefix(arg, "pod/"), "pods/")
			check = append(check, "pod", pod, "-o", "name")
		}
	}
	quiet := stdio{in: strings.NewReader(""), out: new(strings.Builder), err: io.err}
	if code := runKubectl(ctx, check, quiet); code != 0 {
		return code
	}
	node, isEtcd := strings.CutPrefix(pod, "etcd-")
	command := args[dashes+1:]
	if !isEtcd || len(command) == 0 || command[0] != "etcdctl" {
		io.errorf("error: the light machine can only run etcdctl in a pod of etcd\n")
		return 1
	}
	return etcdctl(ctx, node, command[1:], io)
}

func runKubectl(ctx context.Context, args []string, io stdio) int {
	command := exec.CommandContext(ctx, Kubectl, args...)
	command.Args[0] = "kubectl"
	command.Env = os.Environ()
	command.Stdin, command.Stdout, command.Stderr = io.in, io.out, io.err
	if err := command.Run(); err != nil {
		if command.ProcessState == nil {
			io.errorf("kubectl: %v\n", err)
			return 1
		}
		return max(command.ProcessState.ExitCode(), 1)
	}
	return 0
}

// etcdctl knows member list, remove, add and promote, and endpoint health.
func etcdctl(ctx context.Context, node string, args []string, io stdio) int {
	var words []string
	format := "simple"
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-w" || args[i] == "--write-out":
			if i++; i < len(args) {
				format = args[i]
			}
		case strings.HasPrefix(args[i], "--write-out="):
			_, format, _ = strings.Cut(args[i], "=")
		case strings.HasPrefix(args[i], "-"):
		default:
			words = append(words, args[i])
		}
	}
	if format != "simple" || len(words) < 2 {
		io.errorf("Error: the light machine does not have etcdctl %s\n", strings.Join(args, " "))
		return 1
	}
	var call Etcd
	switch verb := words[0] + " " + words[1]; {
	case verb == "member list":
		call = Etcd{Node: node, Do: EtcdList}
	case verb == "member remove" && len(words) == 3:
		call = Etcd{Node: node, Do: EtcdRemove, Member: Member{ID: words[2]}}
	case verb == "member promote" && len(words) == 3:
		call = Etcd{Node: node, Do: EtcdPromote, Member: Member{ID: words[2]}}
	case verb == "endpoint health":
		call = Etcd{Node: node, Do: EtcdList}
	default:
		io.errorf("Error: the light machine does not have etcdctl %s\n", strings.Join(words, " "))
		return 1
	}
	var answer EtcdAnswer
	if err := ask(ctx, PathEtcd, call, &answer); err != nil {
		io.errorf("Error: %v\n", err)
		return 1
	}
	if call.Do != EtcdList {
		io.printf("Member %s %sd from cluster %s\n", words[2], words[1], answer.ClusterID)
		return 0
	}
	for _, m := range answer.Members {
		status, client := "unstarted", ""
		if m.Started {
			status, client = "started", strings.Replace(m.PeerURL, ":2380", ":2379", 1)
		}
		io.printf("%s, %s, %s, %s, %s, %t\n", m.ID, status, m.Name, m.PeerURL, client, m.Learner)
	}
	return 0
}
