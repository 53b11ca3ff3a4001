package verify

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/internal/kustomize"
	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

// needle is something of the development tree's own.
type needle struct {
	what  string // for people; says the value itself only if it is no secret
	value string
	// inputs have the value in them: the new domain may be part of the old one.
	inputs []string
}

// minCredential is the shortest credential that is looked for: shorter ones are
// words that stand anywhere.
const minCredential = 6

var (
	accountID  = regexp.MustCompile(`arn:aws[a-z-]*:[a-z0-9-]*:[a-z0-9-]*:([0-9]{12}):|\b([0-9]{12})\.dkr\.ecr\.`)
	zoneID     = regexp.MustCompile(`\bZ[0-9A-Z]{9,31}\b`)
	secretWord = regexp.MustCompile(`(?i)(pass(word|wd|phrase)?|pwd|secret|token|cookie|(api|access|private|secret)[._-]?key)$`)
	plainWord  = regexp.MustCompile(`(?i)(^|[._-])(user(name)?|login|host(name)?|port|db(name)?|database|server|email|name|vhost|region)$`)
	// anyCredential is what a credential looks like, whoever's it is.
	anyCredential = regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----`)
)

// leaks looks for what is the development tree's own in what is written, and in
// what is rendered from it.
func (v *verifier) leaks() {
	needles := v.needles()
	for _, file := range v.written() {
		data := withoutImageNames(file, v.Environment.Tree[file])
		for _, n := range needles {
			if at := n.in(data); at >= 0 {
				v.addf(RuleLeak, file, "line %d has %s", 1+strings.Count(data[:at], "\n"), n.what)
			}
		}
		if at := anyCredential.FindStringIndex(data); at != nil {
			v.addf(RuleLeak, file, "line %d has a credential in clear", 1+strings.Count(data[:at[0]], "\n"))
		}
	}
	for _, layer := range sortedKeys(v.layers) {
		for _, o := range v.layers[layer] {
			walk(o.Fields, "", func(at, value string) {
				for _, n := range needles {
					if n.in(value) >= 0 {
						v.addf(RuleLeak, v.folder+"/"+layer, "%s: %s has %s", o, at, n.what)
					}
				}
			})
		}
	}
}

// withoutImageNames is a file as text. A kustomization has to name the images of
// the base to replace them.
func withoutImageNames(file string, data []byte) string {
	text := string(data)
	if !slices.Contains(kustomize.Names, path.Base(file)) {
		return text
	}
	var k struct {
		Images []struct {
			Name string `json:"name"`
		} `json:"images"`
	}
	if yaml.Unmarshal(data, &k) != nil {
		return text // reported as YAML that does not parse
	}
	for _, image := range k.Images {
		if image.Name != "" {
			text = strings.ReplaceAll(text, image.Name, strings.Repeat(" ", len(image.Name)))
		}
	}
	return text
}

// in is where a text has the needle; -1 if nowhere.
func (n needle) in(text string) int {
	if !strings.Contains(text, n.value) {
		return -1
	}
	for _, input := range n.inputs {
		text = strings.ReplaceAll(text, input, strings.Repeat(" ", len(input)))
	}
	return find(text, n.value)
}

// find is where a value stands alone in a text; -1 if nowhere.
func find(text, value string) int {
	for from := 0; ; {
		i := strings.Index(text[from:], value)
		if i < 0 {
			return -1
		}
		i += from
		end := i + len(value)
		if (i == 0 || !wordByte(text[i-1])) && (end == len(text) || !wordByte(text[end])) {
			return i
		}
		from = i + 1
	}
}

func wordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-'
}

// needles are all that is looked for.
func (v *verifier) needles() []needle {
	tree := v.Base.Repository
	development := gitopsenv.Folder(gitopsenv.Development) + "/"
	isDevelopment := func(file string) bool {
		return strings.HasPrefix(file, development) ||
			strings.HasPrefix(file, "apps/") && strings.Contains(file, "/overlays/"+gitopsenv.Development+"/")
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(tree)), func(file string) bool { return strings.HasPrefix(file, development) }) {
		tree = v.Base.Platform
	}
	c := &collector{values: map[string]string{}}
	for file, data := range tree {
		if isDevelopment(file) {
			c.file(file, data)
		}
	}
	var needles []needle
	for _, value := range sortedKeys(c.values) {
		n := needle{what: c.values[value], value: value}
		for _, input := range []string{v.in.Email, v.in.Registry.Server, v.in.Domain} {
			if strings.Contains(input, value) {
				n.inputs = append(n.inputs, input)
			}
		}
		needles = append(needles, n)
	}
	return needles
}

// collector finds what is the development tree's own.
type collector struct {
	values map[string]string // what it is, by value
}

func (c *collector) file(file string, data []byte) {
	for _, match := range accountID.FindAllSubmatch(data, -1) {
		c.values[string(bytes.Join(match[1:], nil))] = "the development tree's AWS account id"
	}
	if !manifest.IsYAML(file) {
		return
	}
	if strings.HasSuffix(file, "/ingress-hostname.yaml") {
		for _, host := range hostsOfPatch(data) {
			c.host(host)
		}
	}
	objects, err := manifest.Objects(data)
	if err != nil {
		return // it stays where it is
	}
	for _, o := range objects {
		for _, domain := range gitopsenv.DomainFilters(o) {
			c.host(domain)
		}
		for _, host := range gitopsenv.IngressHosts(o) {
			c.host(host)
		}
		if owner, ok := manifest.Get[string](o.Fields, "spec", "values", "txtOwnerId"); ok && owner != "" {
			c.values[owner] = "the owner id of the development tree's external-dns"
		}
		if email, ok := manifest.Get[string](o.Fields, "spec", "acme", "email"); ok && email != "" {
			c.values[email] = "the development tree's e-mail address"
		}
		c.credentials(o)
	}
}

// hostsOfPatch are the values of a JSON patch that set hosts.
func hostsOfPatch(data []byte) []string {
	var hosts []string
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "value: "); ok {
			hosts = append(hosts, strings.Trim(value, `"'`))
		}
	}
	return hosts
}

func (c *collector) host(host string) {
	if strings.Contains(host, ".") && !strings.HasSuffix(host, ".invalid") {
		c.values[host] = "the development hostname " + host
	}
}

func (c *collector) credential(value string) {
	const what = "a credential of the development tree"
	if value = strings.TrimSpace(value); len(value) < minCredential || strings.Contains(value, "\n") {
		return
	}
	c.values[value] = what
	c.values[strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(value)), "=")] = what
}

// credentials are those in an object: of a Secret everything but names, of
// anything else what is named like one.
func (c *collector) credentials(o manifest.Object) {
	switch {
	case o.Is("", "Secret"):
		data, _ := o.Fields["data"].(map[string]any)
		for key, value := range data {
			text, _ := value.(string)
			if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
				c.secretValue(key, string(raw))
			}
		}
		stringData, _ := o.Fields["stringData"].(map[string]any)
		for key, value := range stringData {
			text, _ := value.(string)
			c.secretValue(key, text)
		}
		return
	case o.Is("bitnami.com", "SealedSecret"):
		encrypted, _ := manifest.Get[map[string]any](o.Fields, "spec", "encryptedData")
		for _, value := range encrypted {
			if text, ok := value.(string); ok && text != "" {
				c.values[text] = "a sealed value of the development cluster"
			}
		}
		return
	}
	walk(o.Fields, "", func(at, value string) {
		key := at[strings.LastIndexByte(at, '.')+1:]
		if secretWord.MatchString(key) && !strings.ContainsAny(value, " /$") && !looksLikeName(value) {
			c.credential(value)
		}
		c.userinfo(value)
		if key == "hostedZoneID" || key == "zoneIdFilters" {
			for _, zone := range zoneID.FindAllString(value, -1) {
				c.values[zone] = "the development tree's hosted zone"
			}
		}
	})
}

var nameForm = regexp.MustCompile(`^[a-z]+([-.][a-z]+)*$`)

// looksLikeName says whether a value under a key such as passwordSecret is more
// likely the name of a Secret, or of a key in it, than a password.
func looksLikeName(value string) bool {
	return nameForm.MatchString(value)
}

func (c *collector) secretValue(key, value string) {
	if plainWord.MatchString(key) {
		return
	}
	if key == ".dockerconfigjson" {
		var config struct {
			Auths map[string]struct {
				Password string `json:"password"`
				Auth     string `json:"auth"`
			} `json:"auths"`
		}
		if json.Unmarshal([]byte(value), &config) == nil {
			for server, login := range config.Auths {
				c.host(server)
				c.credential(login.Password)
				c.credential(login.Auth)
			}
		}
		return
	}
	c.userinfo(value)
	c.credential(value)
	for line := range strings.Lines(value) {
		c.credential(line)
	}
}

// userinfo is the password in a URL.
func (c *collector) userinfo(value string) {
	if !strings.Contains(value, "://") {
		return
	}
	if u, err := url.Parse(value); err == nil && u.User != nil {
		if password, ok := u.User.Password(); ok && !strings.HasPrefix(password, "$(") {
			c.credential(password)
		}
	}
}
