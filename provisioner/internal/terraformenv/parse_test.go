package terraformenv

import (
	"maps"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
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

// literal evaluates an expression without variables or functions; anything that
// would have called or interpolated something fails the test.
func literal(tb testing.TB, expression hclsyntax.Expression) any {
	tb.Helper()
	if _, ok := expression.(*hclsyntax.ScopeTraversalExpr); ok {
		return "<reference>"
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
	nfc := norm.NFC.String
	tags := map[string]string{TagEnvironment: nfc(e.Name), TagManagedBy: "cluster-provisioner"}
	if e.ClusterName != "" {
		tags[TagCluster] = nfc(e.ClusterName)
	}
	for key, value := range e.Tags {
		tags[nfc(key)] = nfc(value)
	}
	list := func(values ...string) []string {
		normal := []string{}
		for _, value := range values {
			normal = append(normal, nfc(value))
		}
		return normal
	}
	const reference = "<reference>"

	vpc := map[string]any{
		"source": "../../modules/vpc", "name": reference, "cluster_name": reference, "tags": reference,
		"cidr_block": nfc(e.VPCCIDR),
	}
	if len(e.AvailabilityZones) > 0 {
		vpc["availability_zones"] = list(e.AvailabilityZones...)
	}
	eks := map[string]any{
		"source": "../../modules/eks", "cluster_name": reference, "subnet_ids": reference, "tags": reference,
		"kubernetes_version": nfc(e.KubernetesVersion), "credential_principal_arn": reference,
		"endpoint_public_access": e.PublicAccess,
		"node_instance_type":     nfc(e.WorkerInstanceType),
		"node_count":             e.WorkerCount, "node_min": e.WorkerMin, "node_max": e.WorkerMax,
	}
	if e.PublicAccess {
		eks["public_access_cidrs"] = list(e.AllowedCIDRs...)
	} else {
		eks["private_access_cidrs"] = list(e.VPCCIDR)
		if len(e.AllowedCIDRs) > 0 {
			eks["private_access_cidrs"] = list(e.AllowedCIDRs...)
		}
	}
	if e.AdminPrincipalARN != "" {
		eks["admin_principal_arn"] = nfc(e.AdminPrincipalARN)
	}
	output := func(description string) map[string]any {
		return map[string]any{"description": description, "value": reference}
	}

	return parsed{
		"backend.tf:terraform": {},
		"backend.tf:terraform/backend.s3": {
			"bucket": nfc(e.StateBucket), "key": nfc(e.StateKey), "encrypt": true, "use_lockfile": true,
		},
		"providers.tf:terraform": {"required_version": ">= 1.11"},
		"providers.tf:terraform/required_providers": {
			"aws": map[string]string{"source": "hashicorp/aws", "version": ">= 5.100.0, < 7.0.0"},
		},
		"providers.tf:provider.aws":              {"region": nfc(e.Region)},
		"providers.tf:provider.aws/default_tags": {"tags": reference},
		"main.tf:locals":                         {"cluster_name": nfc(awsName(e.Name, clusterNameLimit)), "tags": tags},
		"main.tf:module.vpc":                     vpc,
		"main.tf:module.eks":                     eks,
		"variables.tf:variable.credential_principal_arn": {
			"description": "ARN of the IAM role or user whose credential Terraform runs with; it administers the cluster.",
			"type":        reference, "nullable": false,
		},
		"outputs.tf:output.cluster_name":           output("Name of the EKS cluster."),
		"outputs.tf:output.cluster_endpoint":       output("URL of the Kubernetes API."),
		"outputs.tf:output.cluster_ca_certificate": output("Certificate of the CA of the Kubernetes API: PEM, in base64."),
	}
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
		files, err := Render(environment)
		if err != nil {
			if allValid(cluster, name, region, version, cidr, zone, instance, allowed, admin, key, value) && name != "" && !ours(key) {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		if diff := cmp.Diff(wantParsed(environment), parse(t, files)); diff != "" {
			t.Errorf("environment differs from what was rendered (-want +got):\n%s", diff)
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
