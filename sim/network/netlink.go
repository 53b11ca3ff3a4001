package network

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// loopback is the only device of a new namespace; its index is always 1.
const loopback = 1

// makeAllLocal does in the calling thread's namespace what
// `ip link set lo up; ip route add local 0.0.0.0/0 dev lo` does.
func makeAllLocal() error {
	up := unix.IfInfomsg{Family: unix.AF_UNSPEC, Index: loopback, Flags: unix.IFF_UP, Change: unix.IFF_UP}
	if err := request(unix.RTM_NEWLINK, 0, up); err != nil {
		return fmt.Errorf("bring the loopback device up: %w", err)
	}
	route := unix.RtMsg{
		Family: unix.AF_INET, Table: unix.RT_TABLE_LOCAL, Protocol: unix.RTPROT_BOOT, Scope: unix.RT_SCOPE_HOST, Type: unix.RTN_LOCAL,
	}
	device := attribute{kind: unix.RTA_OIF, value: binary.NativeEndian.AppendUint32(nil, loopback)}
	if err := request(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, route, device); err != nil {
		return fmt.Errorf("make all addresses local: %w", err)
	}
	return nil
}

// AddAddress gives the machine an address of its own, for those who look.
func (n *Network) AddAddress(address net.IP, prefix uint8) error {
	ip := address.To4()
	if ip == nil {
		return fmt.Errorf("add address %s: not IPv4", address)
	}
	return n.Do(func() error {
		message := unix.IfAddrmsg{Family: unix.AF_INET, Prefixlen: prefix, Scope: unix.RT_SCOPE_UNIVERSE, Index: loopback}
		err := request(unix.RTM_NEWADDR, unix.NLM_F_CREATE, message,
			attribute{kind: unix.IFA_LOCAL, value: ip}, attribute{kind: unix.IFA_ADDRESS, value: ip})
		if err != nil {
			return fmt.Errorf("add address %s: %w", address, err)
		}
		return nil
	})
}

// attribute is a netlink attribute whose value is a multiple of four bytes.
type attribute struct {
	kind  uint16
	value []byte
}

// request sends one routing request and waits for its acknowledgement.
func request(kind, flags uint16, message any, attributes ...attribute) error {
	var body bytes.Buffer
	if err := binary.Write(&body, binary.NativeEndian, message); err != nil {
		return err
	}
	for _, a := range attributes {
		length := uint16(unix.SizeofRtAttr + len(a.value)) //nolint:gosec // a few bytes
		if err := binary.Write(&body, binary.NativeEndian, unix.RtAttr{Len: length, Type: a.kind}); err != nil {
			return err
		}
		body.Write(a.value)
	}
	var packet bytes.Buffer
	header := unix.NlMsghdr{
		Len: uint32(unix.SizeofNlMsghdr + body.Len()), Type: kind, //nolint:gosec // a few bytes
		Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | flags, Seq: 1,
	}
	if err := binary.Write(&packet, binary.NativeEndian, header); err != nil {
		return err
	}
	packet.Write(body.Bytes())

	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	if err := unix.Sendto(socket, packet.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	answer := make([]byte, 4096)
	size, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(answer[:size])
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	for _, m := range messages {
		if m.Header.Type != unix.NLMSG_ERROR || len(m.Data) < 4 {
			continue
		}
		code := int32(binary.NativeEndian.Uint32(m.Data)) //nolint:gosec // an errno, negated
		if code == 0 {
			return nil
		}
		return syscall.Errno(-code) //nolint:gosec // an errno
	}
	return errors.New("netlink: no acknowledgement")
}
