package v1alpha1

import (
	"maps"
	"slices"
)

// Validate checks everything and names every wrong field, as FieldErrors. What it
// accepts it accepts with defaults, too; without them only apiVersion and kind may
// not be left out.
func (e *Environment) Validate() error {
	var c checker
	c.must(e.APIVersion == APIVersion, "apiVersion", "must be "+APIVersion)
	c.must(e.Kind == Kind, "kind", "must be "+Kind)
	c.metadata(e)
	c.spec(&e.Spec)
	c.status(&e.Status)
	return c.errs.err()
}

// metadata takes what a file may have; the rest is set by a server that there is
// not.
func (c *checker) metadata(e *Environment) {
	m := &e.ObjectMeta
	c.check("metadata.name", m.Name, objectNameRule)
	c.check("metadata.namespace", m.Namespace, namespaceRule)
	c.labels("metadata.labels", m.Labels)
	for _, key := range slices.Sorted(maps.Keys(m.Annotations)) {
		switch {
		case !labelKeyRule.ok(key):
			c.errs.add("metadata.annotations", labelKeyRule.message)
		case !isText(m.Annotations[key]):
			c.errs.add("metadata.annotations", "value of "+key+": "+freeTextRule.message)
		}
	}
	for _, f := range []struct {
		name  string
		empty bool
	}{
		{"generateName", m.GenerateName == ""},
		{"selfLink", m.SelfLink == ""}, //nolint:staticcheck // deprecated, and refused therefore, too
		{"uid", m.UID == ""},
		{"resourceVersion", m.ResourceVersion == ""},
		{"ownerReferences", len(m.OwnerReferences) == 0},
		{"finalizers", len(m.Finalizers) == 0},
		{"managedFields", len(m.ManagedFields) == 0},
	} {
		c.must(f.empty, "metadata."+f.name, "has no meaning in a file")
	}
}

func (c *checker) spec(s *EnvironmentSpec) {
	c.check("spec.provider", string(s.Provider), oneOf(ProviderAWS, ProviderSSH))
	c.auth(&s.Auth)
	c.instance(&s.Instance)
	if s.Cluster != nil {
		c.cluster(s)
	} else if s.Provider == ProviderSSH && s.HostUrl == "" {
		c.errs.add("spec.instance.hostUrl", "is required for provider ssh: "+hostPortRule.message)
	}
	c.check("spec.kernel.version", s.Kernel.Version, kernelRule)
	c.driver(&s.NVIDIADriver)
	c.runtime(&s.ContainerRuntime)
	c.toolkit(&s.NVIDIAContainerToolkit)
	c.kubernetes(s)
	if b := s.LoadBalancer; b != nil {
		c.must(!b.Enabled, "spec.loadBalancer.enabled", "is not supported: make a load balancer and set spec.cluster.controlPlaneEndpoint")
		c.check("spec.loadBalancer.type", b.Type, oneOf(LoadBalancerNLB, LoadBalancerALB))
		c.check("spec.loadBalancer.healthCheckPath", b.HealthCheckPath, urlPathRule)
	}
	c.templates(s.CustomTemplates)
}

func (c *checker) auth(a *Auth) {
	c.check("spec.auth.keyName", a.KeyName, keyNameRule)
	c.check("spec.auth.username", a.Username, userRule)
	c.check("spec.auth.publicKey", a.PublicKey, localPathRule)
	c.check("spec.auth.privateKey", a.PrivateKey, localPathRule)
	s := a.SSHConfig
	if s == nil {
		return
	}
	const field = "spec.auth.sshConfig"
	if b := s.Bastion; b != nil {
		c.need(field+".bastion.host", b.Host, hostPortRule)
		c.check(field+".bastion.username", b.Username, userRule)
		c.check(field+".bastion.privateKey", b.PrivateKey, localPathRule)
	}
	c.check(field+".agentSocket", s.AgentSocket, localPathRule)
	c.must(s.AgentSocket == "" || s.UseAgent, field+".agentSocket", "has no effect without useAgent")
	c.check(field+".knownHostsPolicy", s.KnownHostsPolicy, oneOf(KnownHostsAcceptNew, KnownHostsStrict, KnownHostsOff))
	c.must(s.ConnectTimeout.Duration >= 0, field+".connectTimeout", "must not be negative")
	c.must(s.HandshakeTimeout.Duration >= 0, field+".handshakeTimeout", "must not be negative")
	c.must(s.KeepaliveInterval.Duration >= 0, field+".keepaliveInterval", "must not be negative")
	c.must(s.MaxRetries >= 0 && s.MaxRetries <= 1000, field+".maxRetries", "must be 0 to 1000")
}

func (c *checker) instance(i *Instance) {
	const field = "spec.instance"
	c.check(field+".type", i.Type, instanceTypeRule)
	c.check(field+".region", i.Region, regionRule)
	c.check(field+".hostUrl", i.HostUrl, hostPortRule)
	c.list(field+".ingressIpRanges", i.IngressIpRanges, networkRule)
	c.machine(field, i.OS, &i.Image, i.RootVolumeSizeGB)
}

var osRule = oneOf(OSUbuntu2204, OSUbuntu2404, OSRocky9, OSAmazonLinux2023)

// machine checks what an instance and the pools of a cluster have in common.
func (c *checker) machine(field, os string, image *Image, volume *int32) {
	c.check(field+".os", os, osRule)
	c.must(volume == nil || *volume >= 20 && *volume <= 65536, field+".rootVolumeSizeGB", "must be 20 to 65536")
	if image == nil {
		return
	}
	c.check(field+".image.architecture", image.Architecture, oneOf("x86_64", "amd64", "arm64", "aarch64"))
	c.pointer(field+".image.creationDate", image.CreationDate, plainTextRule)
	c.pointer(field+".image.description", image.Description, plainTextRule)
	c.pointer(field+".image.imageId", image.ImageId, imageIDRule)
	c.pointer(field+".image.imageLocation", image.ImageLocation, plainTextRule)
	c.pointer(field+".image.name", image.Name, plainTextRule)
	c.pointer(field+".image.ownerId", image.OwnerId, ownerRule)
}

const maxTemplateSeconds = 24 * 60 * 60

func (c *checker) templates(templates []CustomTemplate) {
	names := make(map[string]bool)
	for i, t := range templates {
		field := index("spec.customTemplates", i)
		c.need(field+".name", t.Name, templateNameRule)
		c.must(t.Name == "" || !names[t.Name], field+".name", "is the name of an earlier template, too")
		names[t.Name] = true
		c.check(field+".phase", string(t.Phase), oneOf(TemplatePhasePreInstall, TemplatePhasePostRuntime,
			TemplatePhasePostToolkit, TemplatePhasePostKubernetes, TemplatePhasePostInstall))
		c.check(field+".inline", t.Inline, freeTextRule)
		c.check(field+".file", t.File, templateFileRule)
		c.check(field+".url", t.URL, httpsRule)
		sources := 0
		for _, s := range []string{t.Inline, t.File, t.URL} {
			if s != "" {
				sources++
			}
		}
		c.must(sources == 1, field, "must have exactly one of inline, file and url")
		c.check(field+".checksum", t.Checksum, checksumRule)
		c.must(t.Timeout >= 0 && t.Timeout <= maxTemplateSeconds, field+".timeout", "must be 0 to 86400 seconds")
		for _, name := range slices.Sorted(maps.Keys(t.Env)) {
			switch {
			case !envNameRule.ok(name):
				c.errs.add(field+".env", envNameRule.message)
			case !isText(t.Env[name]):
				c.errs.add(field+".env", "value of "+name+": "+freeTextRule.message)
			}
		}
	}
}
