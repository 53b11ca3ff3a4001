package sessionmanager

import (
	"maps"
	"regexp"
	"strconv"
)

// document is a session document: which parameters it has, and what they are if
// a call does not give them.
type document struct {
	defaults   map[string]string
	forwarding bool // connections one after the other
}

// Names of the documents.
const (
	sshDocument     = "AWS-StartSSHSession"
	forwardDocument = "AWS-StartPortForwardingSession"
)

var documents = map[string]document{
	sshDocument:     {defaults: map[string]string{"portNumber": "22"}},
	forwardDocument: {defaults: map[string]string{"portNumber": "80", "localPortNumber": "0"}, forwarding: true},
}

var portPattern = regexp.MustCompile(`^(0|[1-9][0-9]{0,4})$`)

// properties are a document's with the parameters of a call, as the agent tells
// them to the client, and the port on the machine.
func properties(name string, parameters map[string][]string) (map[string]string, int, error) {
	d, ok := documents[name]
	switch {
	case name == "":
		return nil, 0, failure("InvalidDocument", "Document SSM-SessionManagerRunShell: the simulator has no shell sessions.")
	case !ok:
		return nil, 0, failure("InvalidDocument", "Document with name %s does not exist.", name)
	}
	props := maps.Clone(d.defaults)
	for key, values := range parameters {
		switch {
		case d.defaults[key] == "":
			return nil, 0, invalid("Parameter %q is not defined in document %s.", key, name)
		case len(values) != 1:
			return nil, 0, invalid("Parameter %q takes one value.", key)
		}
		n, err := strconv.Atoi(values[0])
		if !portPattern.MatchString(values[0]) || err != nil || n > 1<<16-1 || n == 0 && key == "portNumber" {
			return nil, 0, invalid("Parameter %q has a value that does not match its allowed pattern.", key)
		}
		props[key] = values[0]
	}
	port, err := strconv.Atoi(props["portNumber"])
	if d.forwarding {
		props["type"] = "LocalPortForwarding"
	}
	return props, port, err
}
