// Package imds is the metadata service of one machine, version 2 only: without a
// session token everything but a token is refused.
//
// The hop limit is not modelled: a machine here has no containers with hops to
// lose. Paths that nobody asked for yet are not there and answer 404.
package imds

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	tokenHeader = "X-Aws-Ec2-Metadata-Token" //nolint:gosec // a header's name
	ttlHeader   = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	maxTTL      = 21600
)

// Instance is what the service tells about its machine.
type Instance struct {
	ID               string
	Type             string
	AMI              string
	AccountID        string
	Region           string
	AvailabilityZone string
	PrivateIP        string
	PublicIP         string // empty: none
	PrivateDNSName   string
	MAC              string
	InstanceProfile  string // ARN; empty: none
	Role             string // name of the profile's role; empty: none
	UserData         []byte // as cloud-init gets it; empty: none
	LaunchTime       time.Time
}

// Credentials are temporary ones of the machine's role.
type Credentials struct {
	AccessKeyID     string
	SecretAccessKey string
	Token           string
	Issued          time.Time
	Expiration      time.Time
}

// Config says what a server answers.
type Config struct {
	Instance func() Instance
	// Credentials gives credentials of the instance's role that are valid for a
	// while.
	Credentials func() (Credentials, error)
	Now         func() time.Time // nil: time.Now
}

// Server is the service, for port 80 of 169.254.169.254.
type Server struct {
	config Config
	mu     sync.Mutex
	tokens map[string]time.Time // to their ends
}

// New makes the service of a machine.
func New(config Config) *Server {
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Server{config: config, tokens: map[string]time.Time{}}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "EC2ws")
	if r.URL.Path == "/latest/api/token" {
		s.token(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "405 - Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	if !s.known(r.Header.Get(tokenHeader)) {
		http.Error(w, "401 - Unauthorized", http.StatusUnauthorized)
		return
	}
	content, ok := s.find(r.URL.Path)
	if !ok {
		http.Error(w, "404 - Not Found", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write(content) // the client is gone: there is nobody to tell
}

// token begins a session. The service gives none to a request that came through a proxy.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		http.Error(w, "405 - Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	if r.Header.Get("X-Forwarded-For") != "" {
		http.Error(w, "403 - Forbidden", http.StatusForbidden)
		return
	}
	ttl, err := strconv.Atoi(r.Header.Get(ttlHeader))
	if err != nil || ttl < 1 || ttl > maxTTL {
		http.Error(w, "400 - Bad Request", http.StatusBadRequest)
		return
	}
	token := rand.Text() + rand.Text() + "=="
	now := s.config.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for old, end := range s.tokens {
		if !now.Before(end) {
			delete(s.tokens, old)
		}
	}
	s.tokens[token] = now.Add(time.Duration(ttl) * time.Second)
	w.Header().Set(ttlHeader, strconv.Itoa(ttl))
	_, _ = w.Write([]byte(token))
}

func (s *Server) known(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, ok := s.tokens[token]
	return ok && s.config.Now().Before(end)
}

// find gives the content of a path: that of a leaf, or the list of a directory.
func (s *Server) find(name string) ([]byte, bool) {
	leaves, err := s.leaves()
	if err != nil {
		return nil, false
	}
	name = path.Clean(name)
	if content, ok := leaves[name]; ok {
		return []byte(content), true
	}
	var entries []string
	for leaf := range leaves {
		rest, below := strings.CutPrefix(leaf, strings.TrimSuffix(name, "/")+"/")
		if !below {
			continue
		}
		entry, _, isDirectory := strings.Cut(rest, "/")
		if isDirectory {
			entry += "/"
		}
		if !slices.Contains(entries, entry) {
			entries = append(entries, entry)
		}
	}
	slices.Sort(entries)
	return []byte(strings.Join(entries, "\n")), len(entries) > 0
}

func (s *Server) leaves() (map[string]string, error) {
	i := s.config.Instance()
	const meta = "/latest/meta-data/"
	network := meta + "network/interfaces/macs/" + i.MAC + "/"
	leaves := map[string]string{
		meta + "ami-id":                              i.AMI,
		meta + "instance-id":                         i.ID,
		meta + "instance-type":                       i.Type,
		meta + "instance-life-cycle":                 "on-demand",
		meta + "hostname":                            i.PrivateDNSName,
		meta + "local-hostname":                      i.PrivateDNSName,
		meta + "local-ipv4":                          i.PrivateIP,
		meta + "mac":                                 i.MAC,
		meta + "placement/availability-zone":         i.AvailabilityZone,
		meta + "placement/region":                    i.Region,
		meta + "services/domain":                     "amazonaws.com",
		meta + "services/partition":                  "aws",
		network + "local-ipv4s":                      i.PrivateIP,
		network + "owner-id":                         i.AccountID,
		"/latest/dynamic/instance-identity/document": identity(i),
	}
	if i.PublicIP != "" {
		leaves[meta+"public-ipv4"] = i.PublicIP
		leaves[network+"public-ipv4s"] = i.PublicIP
	}
	if len(i.UserData) > 0 {
		leaves["/latest/user-data"] = string(i.UserData)
	}
	if i.Role != "" {
		credentials, err := s.config.Credentials()
		if err != nil {
			return nil, err
		}
		leaves[meta+"iam/security-credentials/"+i.Role] = document(map[string]string{
			"Code": "Success", "Type": "AWS-HMAC",
			"LastUpdated": stamp(credentials.Issued), "Expiration": stamp(credentials.Expiration),
			"AccessKeyId": credentials.AccessKeyID, "SecretAccessKey": credentials.SecretAccessKey, "Token": credentials.Token,
		})
		leaves[meta+"iam/info"] = document(map[string]string{
			"Code": "Success", "LastUpdated": stamp(credentials.Issued), "InstanceProfileArn": i.InstanceProfile,
		})
	}
	return leaves, nil
}

func identity(i Instance) string {
	return document(map[string]string{
		"accountId": i.AccountID, "availabilityZone": i.AvailabilityZone, "imageId": i.AMI, "instanceId": i.ID,
		"instanceType": i.Type, "privateIp": i.PrivateIP, "region": i.Region, "architecture": "x86_64",
		"pendingTime": stamp(i.LaunchTime), "version": "2017-09-30",
	})
}

func document(fields map[string]string) string {
	content, err := json.MarshalIndent(fields, "", "  ")
	if err != nil {
		return "" // a map of strings can always be encoded
	}
	return string(content)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
