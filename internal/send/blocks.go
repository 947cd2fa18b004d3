package send

import "net/netip"

// block is a range of addresses that no webhook may go to unless it is opened.
type block struct {
	prefix netip.Prefix
	// kind completes "an address that may not be called (…)".
	kind string
}

// specialBlocks are the IANA IPv4 and IPv6 special-purpose address registries,
// multicast, and what was assigned for a purpose and withdrawn. A few rows are
// reachable from everywhere in theory (AS112, AMT, 6to4): no webhook receiver is
// there, and some lead back into private networks.
//
// IPv4-mapped addresses have no row: they are judged as the IPv4 address in
// them. IPv6 outside 2000::/3 is refused whether or not it has a row here.
//
// Sources: www.iana.org/assignments/iana-ipv4-special-registry and
// …/iana-ipv6-special-registry (2025); the RFC of each row.
func specialBlocks() []block {
	rows := []struct{ prefix, kind string }{
		{"0.0.0.0/8", kindThisHost},              // RFC 791
		{"10.0.0.0/8", "private network"},        // RFC 1918
		{"100.64.0.0/10", "carrier-grade NAT"},   // RFC 6598
		{"127.0.0.0/8", "loopback"},              // RFC 1122
		{"169.254.0.0/16", "link-local"},         // RFC 3927, cloud metadata
		{"172.16.0.0/12", "private network"},     // RFC 1918
		{"192.0.0.0/24", "protocol assignments"}, // RFC 6890
		{"192.0.2.0/24", "documentation"},        // RFC 5737
		{"192.31.196.0/24", "AS112 service"},     // RFC 7535
		{"192.52.193.0/24", "multicast tunnel"},  // RFC 7450
		{"192.88.99.0/24", "6to4 relay"},         // RFC 7526
		{"192.168.0.0/16", "private network"},    // RFC 1918
		{"192.175.48.0/24", "AS112 service"},     // RFC 7534
		{"198.18.0.0/15", "benchmarking"},        // RFC 2544
		{"198.51.100.0/24", "documentation"},     // RFC 5737
		{"203.0.113.0/24", "documentation"},      // RFC 5737
		{"224.0.0.0/4", "multicast"},             // RFC 5771
		{"255.255.255.255/32", "broadcast"},      // RFC 919
		{"240.0.0.0/4", "reserved"},              // RFC 1112
		{"::/128", kindThisHost},                 // RFC 4291
		{"::1/128", "loopback"},                  // RFC 4291
		{"::/96", "IPv4-compatible"},             // RFC 4291
		{"64:ff9b::/96", "NAT64"},                // RFC 6052
		{"64:ff9b:1::/48", "NAT64"},              // RFC 8215
		{"100::/64", "discard"},                  // RFC 6666
		{"100:0:0:1::/64", "dummy prefix"},       // RFC 9780
		{"2001::/32", "Teredo"},                  // RFC 4380
		{"2001:2::/48", "benchmarking"},          // RFC 5180
		{"2001:3::/32", "multicast tunnel"},      // RFC 7450
		{"2001:4:112::/48", "AS112 service"},     // RFC 7535
		{"2001:10::/28", "ORCHID"},               // RFC 4843
		{"2001:20::/28", "ORCHID"},               // RFC 7343
		{"2001:30::/28", "drone identification"}, // RFC 9374
		{"2001::/23", "protocol assignments"},    // RFC 2928
		{"2001:db8::/32", "documentation"},       // RFC 3849
		{"2002::/16", "6to4"},                    // RFC 3056
		{"2620:4f:8000::/48", "AS112 service"},   // RFC 7534
		{"3ffe::/16", "6bone"},                   // RFC 3701
		{"3fff::/20", "documentation"},           // RFC 9637
		{"5f00::/16", "segment routing"},         // RFC 9602
		{"fc00::/7", "private network"},          // RFC 4193
		{"fe80::/10", "link-local"},              // RFC 4291
		{"fec0::/10", "site-local"},              // RFC 3879
		{"ff00::/8", "multicast"},                // RFC 4291
	}
	blocks := make([]block, len(rows))
	for i, r := range rows {
		blocks[i] = block{netip.MustParsePrefix(r.prefix), r.kind}
	}
	return blocks
}

// Kinds that the guard itself gives.
const (
	kindThisHost   = "this host"
	kindOwn        = "this service itself"
	kindUnassigned = "unassigned"
)
