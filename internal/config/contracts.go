package config

import "github.com/posthorn/posthorn/contract"

// Contracts lists the contracts that endpoints of this server can be made under,
// by name. The others can be shown and simulated only.
func Contracts() []string { return []string{contract.Standard} }
