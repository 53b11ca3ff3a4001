package terraformenv

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/text/unicode/norm"

	"github.com/kubeopera/platform/shared/api"
)

// parsed is a rendered environment as Terraform's own parser understands it:
// blocks by their type and labels, each with the values of its attributes.
type parsed map[string]map[string]any

// parse reads files back. An attribute that is a reference is the string
// "<reference>": what it refers to is for terraform validate to judge.
func parse(tb testing.TB, files map[string]string) parsed {
	tb.Helper()
	blocks := parsed{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file, diagnostics := hclparse.NewParser().ParseHCL([]byte(files[name]), name)
		if diagnostics.HasErrors() {
			tb.Fatalf("%v\n%s", diagnostics, files[name])
		}
		body, ok := file.Body.(*hclsyntax.Body)
		if !ok {
			tb.Fatalf("%s: body is a %T", name, file.Body)
		}
		if len(body.Attributes) > 0 {
			tb.Fatalf("%s has attributes outside of any block", name)
		}
		collect(tb, blocks, name+":", body)
	}
	return blocks
}

func collect(tb testing.TB, blocks parsed, path string, body *hclsyntax.Body) {
	tb.Helper()
	for _, block := range body.Blocks {
		at := path + block.Type
		for _, label := range block.Labels {
			at += "." + label
		}
		if _, ok := blocks[at]; ok {
			tb.Fatalf("two blocks %s", at)
		}
		values := map[string]any{}
		for name, attribute := range block.Body.Attributes {
			values[name] = literal(tb, attribute.Expr)
		}
		blocks[at] = values
		collect(tb, blocks, at+"/", block.Body)
	}
}

// literal evaluates an expression without functions, in which every reference is
// "<reference>"; anything that would have called something fails the test.
func literal(tb testing.TB, expression hclsyntax.Expression) any {
	tb.Helper()
	const reference = "<reference>"
	switch expression := expression.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return reference
	case *hclsyntax.IndexExpr:
		return []any{literal(tb, expression.Collection), literal(tb, expression.Key)}
	case *hclsyntax.TupleConsExpr:
		if len(expression.Variables()) > 0 {
			list := []string{}
			for _, element := range expression.Exprs {
				list = append(list, literal(tb, element).(string))
			}
			return list
		}
	case *hclsyntax.ObjectConsExpr:
		if len(expression.Variables()) > 0 {
			object := map[string]string{}
			for _, item := range expression.Items {
				object[hcl.ExprAsKeyword(item.KeyExpr)] = literal(tb, item.ValueExpr).(string)
			}
			return object
		}
	case *hclsyntax.TemplateExpr:
		// A value from outside that became a reference would be seen as one.
		if len(expression.Variables()) > 0 {
			text := ""
			for _, part := range expression.Parts {
				text += literal(tb, part).(string)
			}
			return text
		}
	}
	value, diagnostics := expression.Value(nil)
	if diagnostics.HasErrors() {
		tb.Fatalf("not a literal: %v", diagnostics)
	}
	return plain(tb, value)
}

func plain(tb testing.TB, value cty.Value) any {
	tb.Helper()
	switch t := value.Type(); {
	case t == cty.String:
		return value.AsString()
	case t == cty.Bool:
		return value.True()
	case t == cty.Number:
		n, _ := value.AsBigFloat().Int64()
		return int(n)
	case t.IsTupleType():
		list := []string{}
		for _, element := range value.AsValueSlice() {
			list = append(list, element.AsString())
		}
		return list
	case t.IsObjectType():
		object := map[string]string{}
		for key, element := range value.AsValueMap() {
			object[key] = element.AsString()
		}
		return object
	default:
		tb.Fatalf("unexpected type %s", t.FriendlyName())
		return nil
	}
}

// wantParsed is what an environment must read back as, said a second time and
// independently of the renderer.
func wantParsed(e Environment) parsed {
	want := parsed{
		"backend.tf:terraform": {},
		"backend.tf:terraform/backend.s3": {
			"bucket": norm.NFC.String(e.StateBucket), "key": norm.NFC.String(e.StateKey), "encrypt": true, "use_lockfile": true,
		},
		"providers.tf:terraform": {"required_version": ">= 1.11"},
		"providers.tf:terraform/required_providers": {
			"aws": map[string]string{"source": "hashicorp/aws", "version": ">= 5.100.0, < 7.0.0"},
		},
		"providers.tf:provider.aws":              {"region": norm.NFC.String(e.Region)},
		"providers.tf:provider.aws/default_tags": {"tags": wantReference},
		"main.tf:module.vpc":                     wantVPC(e),
	}
	if e.Topology == api.TopologyVanillaKubeadm {
		maps.Copy(want, wantVanilla(e))
	} else {
		maps.Copy(want, wantEKS(e))
	}
	return want
}

const wantReference = "<reference>"

func wantTags(e Environment) map[string]string {
	nfc := norm.NFC.String
	tags := map[string]string{TagEnvironment: nfc(e.Name), TagManagedBy: "cluster-provisioner"}
	if e.ClusterName != "" {
		tags[TagCluster] = nfc(e.ClusterName)
	}
	for key, value := range e.Tags {
		tags[nfc(key)] = nfc(value)
	}
	return tags
}

// normal is a list as HCL writes it.
func normal(values ...string) []string {
	list := []string{}
	for _, value := range values {
		list = append(list, norm.NFC.String(value))
	}
	return list
}

func wantOutput(description string, value any) map[string]any {
	return map[string]any{"description": description, "value": value}
}

func wantVPC(e Environment) map[string]any {
	vpc := map[string]any{
		"source": "../../modules/vpc", "name": wantReference, "cluster_name": wantReference, "tags": wantReference,
		"cidr_block": norm.NFC.String(e.VPCCIDR),
	}
	if len(e.AvailabilityZones) > 0 {
		vpc["availability_zones"] = normal(e.AvailabilityZones...)
	}
	return vpc
}

func wantEKS(e Environment) parsed {
	nfc := norm.NFC.String
	eks := map[string]any{
		"source": "../../modules/eks", "cluster_name": wantReference, "subnet_ids": wantReference, "tags": wantReference,
		"kubernetes_version": nfc(e.KubernetesVersion), "credential_principal_arn": wantReference,
		"endpoint_public_access": e.PublicAccess,
		"node_instance_type":     nfc(e.WorkerInstanceType),
		"node_count":             e.WorkerCount, "node_min": e.WorkerMin, "node_max": e.WorkerMax,
	}
	if e.PublicAccess {
		eks["public_access_cidrs"] = normal(e.AllowedCIDRs...)
	} else {
		eks["private_access_cidrs"] = normal(e.VPCCIDR)
		if len(e.AllowedCIDRs) > 0 {
			eks["private_access_cidrs"] = normal(e.AllowedCIDRs...)
		}
	}
	if e.AdminPrincipalARN != "" {
		eks["admin_principal_arn"] = nfc(e.AdminPrincipalARN)
	}
	return parsed{
		"main.tf:locals":     {"cluster_name": nfc(awsName(e.Name, clusterNameLimit)), "tags": wantTags(e)},
		"main.tf:module.eks": eks,
		"variables.tf:variable.credential_principal_arn": {
			"description": "ARN of the IAM role or user whose credential Terraform runs with; it administers the cluster.",
			"type":        wantReference, "nullable": false,
		},
		"outputs.tf:output.cluster_name":           wantOutput("Name of the EKS cluster.", wantReference),
		"outputs.tf:output.cluster_endpoint":       wantOutput("URL of the Kubernetes API.", wantReference),
		"outputs.tf:output.cluster_ca_certificate": wantOutput("Certificate of the CA of the Kubernetes API: PEM, in base64.", wantReference),
	}
}

func wantVanilla(e Environment) parsed {
	nfc := norm.NFC.String
	several := e.ControlPlaneCount > 1
	inside := normal(e.VPCCIDR)
	if !e.PublicAccess && len(e.AllowedCIDRs) > 0 {
		inside = normal(e.AllowedCIDRs...)
	}
	security := map[string]any{
		"source": "../../modules/security", "name": wantReference, "cluster_name": wantReference, "vpc_id": wantReference,
		"tags": wantReference, "load_balancer": several, "api_internal_cidrs": inside, "api_public": e.PublicAccess,
	}
	if e.PublicAccess {
		security["api_public_cidrs"] = normal(e.AllowedCIDRs...)
	}

	names := []string{"admin_kubeconfig", "ca_cert_hash", "cluster_state", "join_token", "k8s_api_endpoint"}
	if several {
		names = append(names, "k8s_certificate_key")
	}
	for i := range e.ControlPlaneCount {
		names = append(names, "bootstrap_status/control-plane-"+strconv.Itoa(i), "control_plane_joined/"+strconv.Itoa(i))
	}
	parameters := map[string]string{}
	for _, name := range names {
		parameters[name] = nfc("/kubeopera/" + e.Name + "/" + name)
	}

	compute := map[string]any{
		"source": "../../modules/compute", "cluster_name": wantReference, "kubernetes_version": nfc(e.KubernetesVersion),
		"parameters": wantReference, "control_plane_subnet_ids": wantReference, "worker_subnet_ids": wantReference,
		"node_security_group_id": wantReference, "control_plane_security_group_id": wantReference,
		"enable_self_bootstrap_control_plane": true, "control_plane_count": e.ControlPlaneCount,
		"control_plane_instance_type": nfc(e.ControlPlaneInstanceType), "worker_instance_type": nfc(e.WorkerInstanceType),
		"worker_count": e.WorkerCount, "worker_min": e.WorkerMin, "worker_max": e.WorkerMax, "tags": wantReference,
	}
	if e.PodCIDR != "" {
		compute["pod_cidr"] = nfc(e.PodCIDR)
	}

	publicURL := ""
	want := parsed{}
	if several {
		compute["control_plane_endpoint_override"] = wantReference
		wantBalancer(want, e, "api_internal", "-int", true)
	}
	switch {
	case e.PublicAccess && several:
		publicURL = "https://<reference>:6443"
		compute["api_server_cert_sans"] = []string{wantReference}
		wantBalancer(want, e, "api_public", "-pub", false)
	case e.PublicAccess:
		publicURL = "https://<reference>:6443"
		compute["control_plane_elastic_ip"] = map[string]string{"allocation_id": wantReference, "public_ip": wantReference}
		want["main.tf:resource.aws_eip.api"] = map[string]any{
			"domain": "vpc", "tags": wantReference, "depends_on": []string{wantReference},
		}
	}
	maps.Copy(want, parsed{
		"main.tf:locals":          {"cluster_name": nfc(awsName(e.Name, 63)), "tags": wantTags(e)},
		"main.tf:module.security": security,
		"main.tf:resource.aws_ssm_parameter.bootstrap": {
			"for_each": parameters, "name": wantReference, "type": "SecureString", "tier": "Standard",
			"value_wo": "PENDING", "value_wo_version": 1, "tags": wantReference,
		},
		"main.tf:module.compute":                  compute,
		"outputs.tf:output.api_endpoint_internal": wantOutput("URL of the Kubernetes API for nodes and the VPC.", wantReference),
		"outputs.tf:output.api_endpoint_public":   wantOutput("URL of the Kubernetes API for the outside; empty if there is none.", publicURL),
		"outputs.tf:output.parameter_prefix": wantOutput(
			"What the names of the parameters begin with through which nodes talk.", nfc("/kubeopera/"+e.Name)),
		"outputs.tf:output.control_plane_count": wantOutput("Number of control planes.", e.ControlPlaneCount),
		"outputs.tf:output.control_plane_instance_ids": wantOutput(
			"Instances of the control planes, by index; what another instance reported is out of date.", wantReference),
	})
	return want
}

func wantBalancer(want parsed, e Environment, resource, suffix string, internal bool) {
	name := norm.NFC.String("k8s-" + awsName(e.Name, 24) + suffix)
	maps.Copy(want, parsed{
		"main.tf:resource.aws_lb." + resource: {
			"name": name, "load_balancer_type": "network", "internal": internal, "subnets": wantReference,
			"security_groups": []string{wantReference}, "enable_cross_zone_load_balancing": true, "tags": wantReference,
		},
		"main.tf:resource.aws_lb_target_group." + resource: {
			"name": name, "vpc_id": wantReference, "target_type": "instance", "protocol": "TCP", "port": 6443,
			"deregistration_delay": 60, "preserve_client_ip": false, "tags": wantReference,
		},
		"main.tf:resource.aws_lb_target_group." + resource + "/health_check": {
			"protocol": "HTTPS", "path": "/readyz", "matcher": "200", "interval": 10, "healthy_threshold": 2, "unhealthy_threshold": 2,
		},
		"main.tf:resource.aws_lb_listener." + resource: {
			"load_balancer_arn": wantReference, "protocol": "TCP", "port": 6443, "tags": wantReference,
		},
		"main.tf:resource.aws_lb_listener." + resource + "/default_action": {"type": "forward", "target_group_arn": wantReference},
		"main.tf:resource.aws_lb_target_group_attachment." + resource: {
			"count": e.ControlPlaneCount, "target_group_arn": wantReference, "target_id": []any{wantReference, wantReference},
		},
	})
}

func TestRenderedFilesReadBackAsTheyWereMeant(t *testing.T) {
	t.Parallel()
	for name, environment := range goldenEnvironments() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, err := Render(environment)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wantParsed(environment), parse(t, files)); diff != "" {
				t.Errorf("environment differs from what was rendered (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzRender puts any strings into an environment: the files that come out have
// the same blocks as ever and hold exactly these strings.
func FuzzRender(f *testing.F) {
	f.Add("acme", "acme-prod", "eu-west-1", "1.35", "10.0.0.0/16", "eu-west-1a", "t3.large", "203.0.113.0/24", "arn:aws:iam::111122223333:role/a", "team", "platform", true, 2)
	f.Add("${x}", "%{if true}", "a\"b", "\\", "\n", "\r\n", "\x00", "$${", "%%{", "${x}", "~}", false, -1)
	f.Add("$", "$$", "$$$", "%", "%%", "%%%", "\"", "\\\"", "\\u0041", "for", "null", true, 0)
	f.Add("\u2028", "\ufeff", "e\u0301", "\U0001f600", "#", "//", "/*", "*/", "<<EOT", "true", "EOT\n", false, 1)
	f.Add("}", "{", "]", "[", "=", ",", "(", ")", "var.x", "if", "local.tags", true, 1<<31)
	f.Add("$\x00{", "%\u200b{", "\ud7ff", "\ufffd", "$%{", "%${", "$${{", "\\${", "\\%{", "$", "\"}\n", false, 3)
	f.Fuzz(func(t *testing.T, cluster, name, region, version, cidr, zone, instance, allowed, admin, key, value string, public bool, count int) {
		environment := Environment{
			Name: name, ClusterName: cluster, StateBucket: "bucket-" + name, StateKey: "key-" + region,
			Topology: api.TopologyEKS, Region: region, KubernetesVersion: version,
			VPCCIDR: cidr, AvailabilityZones: []string{zone, cidr},
			WorkerCount: count, WorkerMin: count, WorkerMax: count, WorkerInstanceType: instance,
			PublicAccess: public, AllowedCIDRs: []string{allowed, zone}, AdminPrincipalARN: admin,
			Tags: map[string]string{key: value, "fixed-" + value: key},
		}
		vanilla := environment
		vanilla.Topology = api.TopologyVanillaKubeadm
		vanilla.ControlPlaneCount = 1 + int(uint(count)%maxControlPlanes)
		vanilla.ControlPlaneInstanceType, vanilla.PodCIDR = zone, allowed
		for _, environment := range []Environment{environment, vanilla} {
			files, err := Render(environment)
			if err != nil {
				if allValid(cluster, name, region, version, cidr, zone, instance, allowed, admin, key, value) && name != "" && !ours(key) {
					t.Fatalf("refused: %v", err)
				}
				continue
			}
			if diff := cmp.Diff(wantParsed(environment), parse(t, files)); diff != "" {
				t.Errorf("environment differs from what was rendered (-want +got):\n%s", diff)
			}
		}
	})
}

func allValid(values ...string) bool {
	return !slices.ContainsFunc(values, func(value string) bool { return !utf8.ValidString(value) })
}

// ours says whether a tag's key may be refused: it is one of the platform's, or
// could be the other key that the fuzz target sets.
func ours(key string) bool {
	normal := norm.NFC.String(key)
	return normal == TagEnvironment || normal == TagManagedBy || normal == TagCluster ||
		len(normal) >= 6 && normal[:6] == "fixed-"
}
