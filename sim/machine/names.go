package machine

import (
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// resolve answers questions for names until the connection closes.
func (m *Machine) resolve(connection net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := connection.ReadFrom(buffer)
		if err != nil {
			return
		}
		answer, err := m.answerName(buffer[:n])
		if err != nil {
			continue // no question that makes sense
		}
		_, _ = connection.WriteTo(answer, from) // who asked asks again
	}
}

func (m *Machine) answerName(packet []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(packet)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	address, known := m.lookup(strings.TrimSuffix(strings.ToLower(question.Name.String()), "."))
	reply := dnsmessage.Header{ID: header.ID, Response: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true}
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
	}
	builder := dnsmessage.NewBuilder(nil, reply)
	if err := builder.StartQuestions(); err != nil {
		return nil, err
	}
	if err := builder.Question(question); err != nil {
		return nil, err
	}
	if known && question.Type == dnsmessage.TypeA {
		if err := builder.StartAnswers(); err != nil {
			return nil, err
		}
		if err := builder.AResource(dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 1},
			dnsmessage.AResource{A: address.As4()}); err != nil {
			return nil, err
		}
	}
	return builder.Finish()
}

// lookup knows the machines of the network, and the names of the web.
func (m *Machine) lookup(name string) (netip.Addr, bool) {
	own := m.Instance()
	for _, other := range m.machines.Machines() {
		i := other.Instance()
		if i.VPCID != own.VPCID || i.State != "running" || !strings.EqualFold(i.PrivateDNS, name) {
			continue
		}
		if address, err := netip.ParseAddr(i.PrivateIP); err == nil {
			return address, true
		}
	}
	return m.machines.web.Lookup(name)
}
