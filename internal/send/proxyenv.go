package send

// ProxyVariables returns the names of the proxy variables that are set in an
// environment. They are ignored, since a proxy would resolve names itself, past
// the guard (B85, N27); a server says so at its start. lookup is os.LookupEnv.
func ProxyVariables(lookup func(string) (string, bool)) []string {
	var set []string
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		if value, ok := lookup(name); ok && value != "" {
			set = append(set, name)
		}
	}
	return set
}
