package provision

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kubeopera/platform/shared/api"
)

// What a request for existing machines may have.
const (
	maxMachines    = 100
	defaultSSHPort = 22
	// apiPort is where kubeadm lets API servers listen.
	apiPort = 6443
)

var (
	// userPattern is a name as useradd takes it.
	userPattern = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	// instancePattern is an EC2 instance, or a machine that is registered with
	// Systems Manager.
	instancePattern = regexp.MustCompile(`^(i-[0-9a-f]{8}|i-[0-9a-f]{17}|mi-[0-9a-f]{17})$`)
	// hostLabel is a part of a DNS name.
	hostLabel = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)
	allDigits = regexp.MustCompile(`^[0-9.]+$`)
)

// hostKeyTypes are the algorithms that OpenSSH has host keys of, less those that
// it does not take any more.
var hostKeyTypes = []string{"ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa"}

// existing checks what a cluster on machines that exist has, and refuses what it
// has not.
func (c *checker) existing(req api.ProvisionRequest, in *Inputs) {
	in.Machines = c.machines(req.Machines)
	in.SSHCredentialID = c.sshCredentialID(req.SSHCredentialID)
	in.ControlPlaneCount = countControlPlanes(in.Machines)
	// kubeadm of any patch initialises on the machine itself.
	in.KubernetesVersion = c.kubeadmVersion(req.KubernetesVersion, 1)
	in.ControlPlaneEndpoint = c.controlPlaneEndpoint(req.ControlPlaneEndpoint, in.Machines)
	in.PodCIDR = c.podCIDR(req.PodCIDR)
	c.apart("", in.PodCIDR)
	if slices.ContainsFunc(in.Machines, func(m api.Machine) bool { return m.Transport == api.TransportSSM }) {
		in.Region = c.region(req.Region)
		in.CredentialID = c.credentialID(req.CredentialID)
	} else {
		c.absent(api.TopologyExistingMachines, "no machine is reached through AWS Systems Manager", map[string]bool{
			"region": req.Region != "", "credential_id": req.CredentialID != "",
		})
	}
	in.AllowReplacement = req.AllowReplacement
	c.absent(api.TopologyExistingMachines, "the machines are there already", map[string]bool{
		"control_plane_count":         req.ControlPlaneCount != nil,
		"control_plane_instance_type": req.ControlPlaneInstanceType != "",
		"worker_count":                req.WorkerCount != nil,
		"worker_min":                  req.WorkerMin != nil,
		"worker_max":                  req.WorkerMax != nil,
		"worker_instance_type":        req.WorkerInstanceType != "",
		"vpc_cidr":                    req.VPCCIDR != "",
		"availability_zones":          len(req.AvailabilityZones) > 0,
		"tags":                        len(req.Tags) > 0,
	})
	c.absent(api.TopologyExistingMachines, "who reaches their API server is up to the machines' network", map[string]bool{
		"api_access": req.APIAccess != "", "api_allowed_cidrs": len(req.APIAllowedCIDRs) > 0,
	})
	c.absent(api.TopologyExistingMachines, "its kubeconfig holds a certificate", map[string]bool{
		"admin_principal_arn": req.AdminPrincipalARN != "", "kubeconfig_auth": req.KubeconfigAuth != "",
	})
}

// absent refuses fields that a topology has no use for.
func (c *checker) absent(topology api.Topology, reason string, given map[string]bool) {
	for field, is := range given {
		if is {
			c.addf(field, "does not belong to %s: %s; leave it out", topology, reason)
		}
	}
}

func (c *checker) sshCredentialID(id string) string {
	switch {
	case id == "":
		c.addf("ssh_credential_id", "is required: the UUID of a credential of kind ssh_key in auth-service")
	case !uuidPattern.MatchString(id):
		c.addf("ssh_credential_id", "must be the UUID of a credential of kind ssh_key in auth-service")
	}
	return strings.ToLower(id)
}

// machines gives every machine with its defaults.
func (c *checker) machines(machines []api.Machine) []api.Machine {
	if len(machines) == 0 {
		c.addf("machines", "is required: at least one with the role %s", api.RoleControlPlane)
		return nil
	}
	if len(machines) > maxMachines {
		c.addf("machines", "must be at most %d", maxMachines)
		return nil
	}
	list := slices.Clone(machines)
	seen := map[string]int{}
	for i := range list {
		c.machine(i, &list[i])
		for _, identity := range identities(list[i]) {
			if first, twice := seen[identity]; twice {
				c.addf(fmt.Sprintf("machines[%d]", i), "is the same machine as machines[%d]", first)
				break
			}
			seen[identity] = i
		}
	}
	if n := countControlPlanes(list); !slices.Contains([]int{1, 3, 5}, n) {
		c.addf("machines", "must have 1, 3 or 5 with the role %s: etcd needs a majority, which an even number does not make safer", api.RoleControlPlane)
	}
	return list
}

// identities are what no two machines have in common. Machines behind one address
// differ by their ports.
func identities(m api.Machine) []string {
	var found []string
	if m.Address != "" {
		found = append(found, net.JoinHostPort(strings.ToLower(m.Address), strconv.Itoa(m.Port)))
	}
	if m.InstanceID != "" {
		found = append(found, m.InstanceID)
	}
	return found
}

func (c *checker) machine(i int, m *api.Machine) {
	at := func(field string) string { return fmt.Sprintf("machines[%d].%s", i, field) }
	if m.Role != api.RoleControlPlane && m.Role != api.RoleWorker {
		c.addf(at("role"), "must be %s or %s", api.RoleControlPlane, api.RoleWorker)
	}
	switch m.Transport {
	case "":
		m.Transport = api.TransportDirect
	case api.TransportDirect, api.TransportSSM:
	default:
		c.addf(at("transport"), "must be %s or %s", api.TransportDirect, api.TransportSSM)
	}
	ssm := m.Transport == api.TransportSSM
	switch {
	case ssm && !instancePattern.MatchString(m.InstanceID):
		c.addf(at("instance_id"), "is required with the transport %s: an EC2 instance id (i-...), or that of a registered machine (mi-...)", api.TransportSSM)
	case !ssm && m.InstanceID != "":
		c.addf(at("instance_id"), "belongs to the transport %s; leave it out", api.TransportSSM)
	}
	switch {
	case m.Address == "" && !ssm:
		c.addf(at("address"), "is required with the transport %s: an IP address or a DNS name", api.TransportDirect)
	case m.Address != "" && !isHost(m.Address):
		c.addf(at("address"), "must be an IP address or a DNS name")
	}
	if !userPattern.MatchString(m.User) {
		c.addf(at("user"), "is required: the name of a user that is root, or may become root by sudo without a password")
	}
	switch {
	case m.Port == 0:
		m.Port = defaultSSHPort
	case m.Port < 0 || m.Port > 65535:
		c.addf(at("port"), "must be 1 to 65535")
	}
	if key, ok := hostKey(m.HostKey); ok {
		m.HostKey = key
	} else {
		c.addf(at("host_key"), "is required: a public host key, as in /etc/ssh/ssh_host_ed25519_key.pub of the machine (type and key in base64), one of %s", strings.Join(hostKeyTypes, ", "))
	}
}

// hostKey is a public key in authorized_keys form without its comment. Whether it
// is a sound key shows when the machine is connected to: another than the
// machine's own never fits.
func hostKey(text string) (string, bool) {
	if len(text) > 4<<10 {
		return "", false
	}
	fields := strings.Fields(text)
	if len(fields) < 2 || strings.ContainsAny(text, "\r\n") || !slices.Contains(hostKeyTypes, fields[0]) {
		return "", false
	}
	key := strings.TrimRight(fields[1], "=")
	blob, err := base64.RawStdEncoding.DecodeString(key)
	if err != nil || len(blob) < 4 {
		return "", false
	}
	// The blob repeats the type as its first string (RFC 4253, 6.6).
	n := binary.BigEndian.Uint32(blob)
	if int64(n) >= int64(len(blob)-4) || string(blob[4:4+n]) != fields[0] {
		return "", false
	}
	return fields[0] + " " + fields[1], true
}

// isHost says whether a text is an IP address that can be a machine's, or a DNS
// name: nothing that a program could take for an option.
func isHost(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Zone() == "" && !address.IsUnspecified() && !address.IsMulticast()
	}
	if len(host) > 253 || allDigits.MatchString(host) {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if !hostLabel.MatchString(label) {
			return false
		}
	}
	return true
}

// controlPlaneEndpoint is where the cluster's API is found, for ever. Which
// machine's loss takes the API away is for the caller to decide.
func (c *checker) controlPlaneEndpoint(endpoint string, machines []api.Machine) string {
	const field = "control_plane_endpoint"
	if endpoint != "" {
		host, port := endpoint, strconv.Itoa(apiPort)
		if h, p, err := net.SplitHostPort(endpoint); err == nil {
			host, port = h, p
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || !isHost(host) {
			c.addf(field, "must be an IP address or a DNS name, with :port or without")
			return endpoint
		}
		return net.JoinHostPort(host, port)
	}
	first := slices.IndexFunc(machines, func(m api.Machine) bool { return m.Role == api.RoleControlPlane })
	switch {
	case first < 0:
		return ""
	case countControlPlanes(machines) > 1:
		c.addf(field, "is required with several control planes: the address of a load balancer before their port %d, or that of one of them if its loss may take the API away", apiPort)
	case machines[first].Address == "":
		c.addf(field, "is required when the control plane has no address: where its port %d is reached", apiPort)
	default:
		return net.JoinHostPort(machines[first].Address, strconv.Itoa(apiPort))
	}
	return ""
}

func countControlPlanes(machines []api.Machine) int {
	n := 0
	for _, m := range machines {
		if m.Role == api.RoleControlPlane {
			n++
		}
	}
	return n
}
