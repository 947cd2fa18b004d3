package signature

import "time"

// Parts that several rows share.
const (
	signedIDTimeBody = placeholderID + "." + placeholderTime + "." + placeholderBody
	signedTimeBody   = placeholderTime + "." + placeholderBody

	standardPrefix = "whsec_"

	fiveMinutes = 5 * time.Minute
)

// Schemes returns the schemes that are built in, one row for each provider and
// variant. The slice is the caller's own.
func Schemes() []Scheme {
	hmacOnly := func() []Algorithm { return []Algorithm{HMACSHA256} }
	return []Scheme{
		{
			Name: "standardwebhooks", Signed: signedIDTimeBody, Form: FormStandard,
			Algorithms: []Algorithm{HMACSHA256, Ed25519}, KeyForm: KeyBase64, SecretPrefix: standardPrefix, Tolerance: fiveMinutes,
			IDHeader: "webhook-id", TimestampHeader: "webhook-timestamp", SignatureHeader: "webhook-signature",
		},
		{
			Name: "svix", Signed: signedIDTimeBody, Form: FormStandard,
			Algorithms: []Algorithm{HMACSHA256, Ed25519}, KeyForm: KeyBase64, SecretPrefix: standardPrefix, Tolerance: fiveMinutes,
			IDHeader: "svix-id", TimestampHeader: "svix-timestamp", SignatureHeader: "svix-signature",
		},
		{
			Name: "petify", Signed: signedIDTimeBody, Form: FormStandard,
			Algorithms: hmacOnly(), KeyForm: KeyBase64, SecretPrefix: standardPrefix, Tolerance: fiveMinutes,
			IDHeader: "webhook-id", TimestampHeader: "webhook-timestamp", SignatureHeader: "webhook-signature",
		},
		{
			Name: "signals", Signed: signedTimeBody, Form: FormTimestampedHex,
			Algorithms: hmacOnly(), KeyForm: KeyText, Tolerance: fiveMinutes,
			SignatureHeader: "Signals-Signature",
		},
		{
			Name: "elido", Signed: signedTimeBody, Form: FormTimestampedHex,
			Algorithms: hmacOnly(), KeyForm: KeyText, Tolerance: fiveMinutes,
			SignatureHeader: "Elido-Signature",
		},
		{
			Name: "stripe", Signed: signedTimeBody, Form: FormTimestampedHex,
			Algorithms: hmacOnly(), KeyForm: KeyText, Tolerance: fiveMinutes,
			SignatureHeader: "Stripe-Signature",
		},
		{
			Name: "stripe", Variant: "hmac-hex", Signed: placeholderBody, Form: FormHex,
			Algorithms: hmacOnly(), KeyForm: KeyText,
			SignatureHeader: "X-Raw-Hmac-Sha256-Hex",
		},
	}
}

// Lookup returns the built-in scheme of that name and variant; the main scheme
// of a provider has the variant "".
func Lookup(name, variant string) (Scheme, bool) {
	for _, s := range Schemes() {
		if s.Name == name && s.Variant == variant {
			return s, true
		}
	}
	return Scheme{}, false
}
