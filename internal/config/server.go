package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

// AdminKeyFile is the file in the data folder that holds the admin key that the
// first start made.
const AdminKeyFile = "admin.key"

// Defaults that other commands share.
const (
	DefaultData   = "./posthorn-data"
	DefaultListen = "127.0.0.1:8080"
)

// Server is everything that `posthorn serve` can be told. The tags are what
// flags, file and reference are made from: environ is the variable, and without
// its prefix and in lower case it is the key in the file.
type Server struct {
	// Data is the folder of the database and of whatever else lies beside it.
	Data string `name:"data" environ:"POSTHORN_DATA" placeholder:"DIR" default:"./posthorn-data" help:"Folder of the database, the admin key and the key that encrypts signing secrets. Made if absent; one server at a time."`
	// Listen is host:port of the API and the console.
	Listen string `name:"listen" environ:"POSTHORN_LISTEN" placeholder:"ADDR" default:"127.0.0.1:8080" help:"Address of the API, host:port. Port 0 takes a free one and says which."`
	// MetricsListen is host:port of /metrics without a key; "" is off.
	MetricsListen string `name:"metrics-listen" environ:"POSTHORN_METRICS_LISTEN" placeholder:"ADDR" help:"Serve /metrics without a key at this address as well. Off by default."`
	// AllowNetworks are CIDRs or bare addresses, with or without a port, that
	// the guarded dialler may reach though they are not public.
	AllowNetworks []string `name:"allow-network" environ:"POSTHORN_ALLOW_NETWORKS" placeholder:"CIDR[:PORT]" help:"Let endpoints lie in a network that is not public, such as 10.0.0.0/8:443, 192.168.1.7 or [fd00::]/8:443. Repeat it for more; a comma separates several. No host names."`
	// Dev lets loopback URLs be plain http where a contract wants https.
	Dev bool `name:"dev" environ:"POSTHORN_DEV" help:"For development: endpoints on loopback may be plain http where their contract asks for https. Opens no network by itself."`
	// TimeLapse divides every wait of a contract (ENGINE N21).
	TimeLapse int `name:"time-lapse" environ:"POSTHORN_TIME_LAPSE" placeholder:"N" default:"1" help:"For demonstrations: contracts' waits pass N times as fast. Time-outs, signatures and time stamps stay real."`
	// PublicURL is what URLs that are shown or sent begin with, as it was given, see
	// PublicBase; "" is the listening address.
	PublicURL string `name:"public-url" environ:"POSTHORN_PUBLIC_URL" placeholder:"URL" help:"What links to this server begin with, if a proxy stands before it. By default the listening address."`
	// ShutdownGrace is how long attempts under way may take at the end.
	ShutdownGrace time.Duration `name:"shutdown-grace" environ:"POSTHORN_SHUTDOWN_GRACE" placeholder:"DURATION" default:"20s" help:"How long requests under way may take to end after SIGTERM; what still runs then is tried again at the next start."`
	// NoMigrate makes the start fail where migrations are pending.
	NoMigrate bool `name:"no-migrate" environ:"POSTHORN_NO_MIGRATE" help:"Do not change the database's schema at the start; exit 1 if it is not up to date."`

	// Secrets come from the environment alone: flags can be seen by every
	// process of the machine.
	Secrets Secrets `kong:"-"`
}

// Secrets are the settings that only the environment gives.
type Secrets struct {
	// AdminKey is zero when the data folder's file holds it.
	AdminKey webhook.SecretText `environ:"POSTHORN_ADMIN_KEY" help:"The admin key, 32 to 256 printable ASCII characters. Without it the first start makes one and keeps it in DIR/admin.key."`
	// SecretsKey encrypts signing secrets at rest; zero: a file in Data does.
	SecretsKey webhook.SecretText `environ:"POSTHORN_SECRETS_KEY" help:"The key that encrypts signing secrets and header values in the database: 32 bytes in base64. Without it the first start makes one and keeps it beside the database."`
	// SecretsKeyOld still decrypt, newest first.
	SecretsKeyOld []webhook.SecretText `environ:"POSTHORN_SECRETS_KEY_OLD" help:"Earlier keys, separated by commas, while the key is being changed: they decrypt and no longer encrypt."`
	// SMTPURL is the mail server that tells owners, see ParseSMTP; zero: no mail.
	SMTPURL webhook.SecretText `environ:"POSTHORN_SMTP_URL" help:"The mail server that tells tenants' owners about their endpoints, as smtp://user:password@host:587?from=hooks@example.com (STARTTLS must be offered; tls=none after the ? does without) or smtps://… (TLS from the beginning, port 465). Without it no mail is sent."`
}

// Lookup is os.LookupEnv, or a test's.
type Lookup func(name string) (string, bool)

// Get returns a variable's value; an empty one counts as absent, so that a
// compose file may pass on what nobody has set.
func (l Lookup) Get(name string) (string, bool) {
	if l == nil {
		return "", false
	}
	value, ok := l(name)
	return value, ok && value != ""
}

// ReadSecrets reads what only the environment gives.
func ReadSecrets(env Lookup) Secrets {
	get := func(name string) webhook.SecretText {
		value, _ := env.Get(name)
		return webhook.NewSecretText(value)
	}
	s := Secrets{AdminKey: get("POSTHORN_ADMIN_KEY"), SecretsKey: get("POSTHORN_SECRETS_KEY"), SMTPURL: get(smtpSetting)}
	old, _ := env.Get("POSTHORN_SECRETS_KEY_OLD")
	for part := range strings.SplitSeq(old, ",") {
		if part = strings.TrimSpace(part); part != "" {
			s.SecretsKeyOld = append(s.SecretsKeyOld, webhook.NewSecretText(part))
		}
	}
	return s
}

// AdminKeyPath is where the first start keeps the admin key that it made.
func (s *Server) AdminKeyPath() string { return filepath.Join(s.Data, AdminKeyFile) }

// Validate reports the first setting that can't be right, as a *Fault. Networks
// are checked by the guard that uses them, keys by what encrypts with them.
func (s *Server) Validate() error {
	if s.Data == "" {
		return fault("--data", "is empty: it must name a folder")
	}
	if err := validAddress("--listen", s.Listen); err != nil {
		return err
	}
	if s.MetricsListen != "" {
		if err := validAddress("--metrics-listen", s.MetricsListen); err != nil {
			return err
		}
	}
	if s.TimeLapse < 1 || s.TimeLapse > 1_000_000 {
		return fault("--time-lapse", "must be a whole number from 1 to 1000000")
	}
	if s.ShutdownGrace < 0 || s.ShutdownGrace > time.Hour {
		return fault("--shutdown-grace", "must lie between 0s and 1h")
	}
	if err := validPublicURL(s.PublicURL); err != nil {
		return err
	}
	return s.Secrets.validate()
}

func (s *Secrets) validate() error {
	if key := s.AdminKey; !key.IsZero() && !webhook.ValidAdminKey(key.Reveal()) {
		return fault("POSTHORN_ADMIN_KEY", "must be "+webhook.AdminKeyForm)
	}
	_, err := ParseSMTP(s.SMTPURL)
	return err
}

func validAddress(setting, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fault(setting, fmt.Sprintf("%q is no address such as 127.0.0.1:8080, [::1]:8080 or :8080", address))
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fault(setting, fmt.Sprintf("%q has no port from 0 to 65535", address))
	}
	if strings.ContainsAny(host, "/ ") {
		return fault(setting, fmt.Sprintf("%q is an address, not a URL: leave out http:// and any path", address))
	}
	return nil
}

// PublicBase is PublicURL as paths are appended to it: without a / at its end.
func (s *Server) PublicBase() string { return strings.TrimRight(s.PublicURL, "/") }

func validPublicURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	ok := err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" &&
		u.User == nil && u.RawQuery == "" && u.Fragment == ""
	if !ok {
		return fault("--public-url", "must be a URL such as https://hooks.example.com, without user, query or fragment")
	}
	return nil
}

// Setting describes one setting, for flags' layers and the reference.
type Setting struct {
	Flag    string // without dashes; "" for environment only
	Environ string
	Key     string // in the file; "" for environment only
	Default string
	Form    string // what stands for the value: ADDR
	Help    string
	Many    bool // takes several values
}

// Settings lists the server's settings in the order of the struct.
func Settings() []Setting {
	var out []Setting
	for field := range reflect.TypeFor[Server]().Fields() {
		if name := field.Tag.Get("name"); name != "" {
			s := describe(field)
			s.Flag, s.Key = name, KeyOf(s.Environ)
			out = append(out, s)
		}
	}
	for field := range reflect.TypeFor[Secrets]().Fields() {
		out = append(out, describe(field))
	}
	return out
}

func describe(field reflect.StructField) Setting {
	return Setting{
		Environ: field.Tag.Get("environ"),
		Default: field.Tag.Get("default"),
		Form:    field.Tag.Get("placeholder"),
		Help:    field.Tag.Get("help"),
		Many:    field.Type.Kind() == reflect.Slice,
	}
}

// KeyOf returns what a variable's setting is called in the file.
func KeyOf(environ string) string {
	return strings.ToLower(strings.TrimPrefix(environ, "POSTHORN_"))
}
