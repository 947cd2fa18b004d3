package send

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Networks are the addresses that an operator opens by --allow-network. The zero
// value opens none.
type Networks struct{ entries []opened }

type opened struct {
	prefix netip.Prefix
	port   uint16 // 0: any
}

// ParseNetworks reads entries such as 10.0.0.0/8, 192.168.3.207, 10.0.0.0/8:443,
// [fd00::]/8:443, fd00::/8, ::1 and [::1]:8443; one text may hold several,
// separated by commas, with spaces around and empty ones between (B103).
// IPv4-mapped ones become IPv4. Everything else is refused, host names too: an
// error names each wrong entry and says what is wrong with it.
func ParseNetworks(texts []string) (Networks, error) {
	var list Networks
	var faults []error
	for _, text := range texts {
		for entry := range strings.SplitSeq(text, ",") {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			n, err := parseEntry(entry)
			if err != nil {
				faults = append(faults, fmt.Errorf("network %q: %w", entry, err))
				continue
			}
			list.entries = append(list.entries, n)
		}
	}
	if len(faults) > 0 {
		return Networks{}, errors.Join(faults...)
	}
	return list, nil
}

// Contains tells whether an entry opens the address and port. The address must
// not be IPv4-mapped.
func (n Networks) Contains(target netip.AddrPort) bool {
	for _, e := range n.entries {
		if (e.port == 0 || e.port == target.Port()) && e.prefix.Contains(target.Addr()) {
			return true
		}
	}
	return false
}

// Strings returns the entries in their uniform form, for a log at the start.
func (n Networks) Strings() []string {
	texts := make([]string, len(n.entries))
	for i, e := range n.entries {
		texts[i] = e.prefix.String()
		if e.port == 0 {
			continue
		}
		if addr := e.prefix.Addr(); addr.Is6() {
			texts[i] = "[" + addr.String() + "]/" + strconv.Itoa(e.prefix.Bits())
		}
		texts[i] += ":" + strconv.Itoa(int(e.port))
	}
	return texts
}

var errNetworkForm = errors.New("write an IP address or a CIDR block, with an optional port: 10.0.0.0/8, 192.168.3.207:8443, [fd00::]/8:443")

func parseEntry(entry string) (opened, error) {
	address, bits, port, err := splitNetwork(entry)
	if err != nil {
		return opened{}, err
	}
	addr, err := netip.ParseAddr(address)
	if err != nil || addr.Zone() != "" {
		return opened{}, errNetworkForm
	}
	width := addr.BitLen()
	if bits == "" {
		bits = strconv.Itoa(width)
	}
	n, err := strconv.ParseUint(bits, 10, 8)
	if err != nil || int(n) > width {
		return opened{}, fmt.Errorf("what follows the slash must be a number from 0 to %d", width)
	}
	prefix := unmapPrefix(netip.PrefixFrom(addr, int(n)))
	if prefix != prefix.Masked() {
		return opened{}, fmt.Errorf("it has bits set after the first %d; for the whole block write %s, for the one address leave the slash away", prefix.Bits(), prefix.Masked())
	}
	if isThisHost(prefix.Addr()) && (prefix.Addr().Is4() && prefix.Bits() >= 8 || prefix.IsSingleIP()) {
		return opened{}, errors.New("this address means the machine itself and can't be opened; open the address that the receiver listens on")
	}
	return opened{prefix, port}, nil
}

// splitNetwork cuts an entry into its address, the number after the slash, or
// "", and the port, or 0.
func splitNetwork(entry string) (address, bits string, port uint16, err error) {
	rest := entry
	if inner, bracketed := strings.CutPrefix(entry, "["); bracketed {
		var closed bool
		address, rest, closed = strings.Cut(inner, "]")
		if !closed || !strings.Contains(address, ":") {
			return "", "", 0, errNetworkForm
		}
	} else {
		end := strings.IndexByte(entry, '/')
		if colon := strings.IndexByte(entry, ':'); end < 0 && colon >= 0 && colon == strings.LastIndexByte(entry, ':') {
			end = colon // one colon: IPv4 and a port
		}
		if end < 0 {
			return entry, "", 0, nil
		}
		address, rest = entry[:end], entry[end:]
	}
	rest, number, hasPort := strings.Cut(rest, ":")
	if hasPort {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || n == 0 {
			return "", "", 0, errors.New("the port must be a number from 1 to 65535")
		}
		port = uint16(n)
		if entry[0] != '[' && strings.Contains(address, ":") {
			return "", "", 0, errors.New("an IPv6 address with a port stands in brackets: [fd00::]/8:443")
		}
	}
	bits, slash := strings.CutPrefix(rest, "/")
	if rest != "" && (!slash || bits == "") {
		return "", "", 0, errNetworkForm
	}
	return address, bits, port, nil
}

// unmapPrefix turns ::ffff:10.0.0.0/104 into 10.0.0.0/8.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	const mapped = 96
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p
}
