package guest

import (
	"context"
	"os"
	"slices"
	"strings"
)

// ownAddress is the machine's own address. Its only device is the loopback one,
// which the real commands would not show as a network.
func ownAddress(ctx context.Context, io stdio) (string, bool) {
	var settings Settings
	if err := ask(ctx, PathSettings, struct{}{}, &settings); err != nil {
		io.errorf("%v\n", err)
		return "", false
	}
	return settings.Address, true
}

// hostname shows the name, or with -I the address.
func hostname(ctx context.Context, args []string, io stdio) int {
	name, err := os.Hostname()
	if err != nil {
		io.errorf("hostname: %v\n", err)
		return 1
	}
	switch {
	case len(args) == 0 || args[0] == "-s" || args[0] == "-f" || args[0] == "--short" || args[0] == "--fqdn":
		io.printf("%s\n", name)
		return 0
	case args[0] == "-I" || args[0] == "-i" || args[0] == "--all-ip-addresses":
		address, ok := ownAddress(ctx, io)
		if !ok {
			return 1
		}
		io.printf("%s \n", address)
		return 0
	}
	return hostCommand(ctx, "hostname", args, io)
}

// ip shows one device, ens5, with the machine's address and a default route.
func ip(ctx context.Context, args []string, io stdio) int {
	const device = "ens5"
	var words []string
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			words = append(words, arg)
		}
	}
	if len(words) == 0 {
		io.errorf("ip: the light machine knows addr, route and link\n")
		return 255
	}
	address, ok := ownAddress(ctx, io)
	if !ok {
		return 1
	}
	gateway := address[:strings.LastIndex(address, ".")+1] + "1"
	oneline := slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-o") })
	switch object := words[0]; {
	case strings.HasPrefix("address", object) && oneline:
		io.printf("1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever\n"+
			"2: %s    inet %s/24 metric 100 brd %s255 scope global dynamic %s\\       valid_lft 3000sec preferred_lft 3000sec\n",
			device, address, strings.TrimSuffix(gateway, "1"), device)
	case strings.HasPrefix("address", object):
		io.printf("1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 state UNKNOWN\n    inet 127.0.0.1/8 scope host lo\n"+
			"2: %s: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9001 state UP\n    inet %s/24 scope global dynamic %s\n", device, address, device)
	case strings.HasPrefix("route", object) && len(words) > 2 && words[1] == "get":
		io.printf("%s via %s dev %s src %s uid %d \n    cache \n", words[2], gateway, device, address, os.Getuid())
	case strings.HasPrefix("route", object):
		io.printf("default via %s dev %s proto dhcp src %s metric 100 \n", gateway, device, address)
	case strings.HasPrefix("link", object) && len(words) > 2:
		name := words[len(words)-1]
		if words[1] == "show" && (name == "lo" || name == device) {
			io.printf("2: %s: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9001 state UP\n", name)
			return 0
		}
		if words[1] == "show" {
			io.errorf("Device \"%s\" does not exist.\n", name)
			return 1
		}
		io.errorf("Cannot find device \"%s\"\n", words[2])
		return 1
	case strings.HasPrefix("link", object):
		io.printf("1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 state UNKNOWN\n2: %s: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9001 state UP\n", device)
	default:
		io.errorf("ip: the light machine does not have ip %s\n", strings.Join(args, " "))
		return 255
	}
	return 0
}
