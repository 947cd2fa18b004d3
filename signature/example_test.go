package signature_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/posthorn/posthorn/signature"
)

// A receiver reads the raw body, verifies, and only then parses.
func Example_receiver() {
	scheme, _ := signature.Lookup("standardwebhooks", "")
	key, err := scheme.ParseKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	keys := []signature.Key{key} // during a rotation: the old one too

	handler := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		now := time.Unix(1614265400, 0) // time.Now() outside this example
		req := signature.Request{Header: r.Header, Body: body}
		if err := scheme.Verify(req, keys, now, scheme.Tolerance); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}

	request := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(`{"test": 2432232314}`))
	request.Header.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	request.Header.Set("webhook-timestamp", "1614265330")
	request.Header.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	answer := httptest.NewRecorder()
	handler(answer, request)
	fmt.Println(answer.Code)

	request.Header.Add("webhook-signature", "v1,another")
	request.Body = io.NopCloser(strings.NewReader(`{"test": 2432232314}`))
	answer = httptest.NewRecorder()
	handler(answer, request)
	fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))
	// Output:
	// 204
	// 401 webhook-signature: the header is there more than once
}

// During a rotation the sender signs with both secrets.
func ExampleScheme_SetHeaders() {
	scheme, _ := signature.Lookup("standardwebhooks", "")
	current, err1 := scheme.ParseKey("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	previous, err2 := scheme.ParseKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println(err)
		return
	}
	message := signature.Message{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", Timestamp: 1614265330, Body: []byte(`{"test": 2432232314}`)}
	header := http.Header{}
	if err := scheme.SetHeaders(header, message, current, previous); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(header.Get("webhook-id"), header.Get("webhook-timestamp"))
	for entry := range strings.SplitSeq(header.Get("webhook-signature"), " ") {
		fmt.Println(entry)
	}
	// Output:
	// msg_p5jXN8AQM9LWM0D4loKWxJek 1614265330
	// v1,O4Gjv1HqPqsMrjmczoggs/sWA8gZD0VyHG+fLh4+ktI=
	// v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=
}

// On a hot path, parse the secret once and reuse the buffer.
func ExampleScheme_AppendSignature() {
	scheme, _ := signature.Lookup("elido", "")
	key, err := scheme.ParseKey("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	if err != nil {
		fmt.Println(err)
		return
	}
	value := make([]byte, 0, 256)
	for attempt := range int64(2) {
		message := signature.Message{Timestamp: 1767225600 + attempt, Body: []byte(`{"n":1}`)}
		if value, err = scheme.AppendSignature(value[:0], message, key); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", value)
	}
	// Output:
	// t=1767225600,v1=8e4a96297e50bd7703dc5164e3d61e4e9902f6ec286b6efdde3cb0446bbd470f
	// t=1767225601,v1=bc383c08e2160524ed5b565cbac99ad4711b98714309b4f2e2595e5610bb61d2
}

func ExampleScheme_Verify() {
	scheme, _ := signature.Lookup("stripe", "")
	key, err := scheme.ParseKey("whsec_test_secret")
	if err != nil {
		fmt.Println(err)
		return
	}
	request := signature.Request{
		Header: http.Header{"Stripe-Signature": {"t=1495999758,v1=6340073448544f68e8673f5d451fd66d10b9facf9c1c36f23c174994d49f2091"}},
		Body:   []byte("{\n  \"id\": \"evt_test_webhook\",\n  \"object\": \"event\"\n}"),
	}
	for _, late := range []int64{10, 301} {
		err := scheme.Verify(request, []signature.Key{key}, time.Unix(1495999758+late, 0), scheme.Tolerance)
		switch {
		case err == nil:
			fmt.Println("accepted")
		case errors.Is(err, signature.ReasonTooOld):
			fmt.Println("refused:", err)
		}
	}
	// Output:
	// accepted
	// refused: Stripe-Signature: the timestamp is too old
}

// A key never shows its secret.
func ExampleGenerateSecret() {
	secret, err := signature.GenerateSecret(rand.Reader, "whsec_", 32)
	if err != nil {
		fmt.Println(err)
		return
	}
	scheme, _ := signature.Lookup("standardwebhooks", "")
	key, err := scheme.ParseKey(secret)
	fmt.Println(len(secret), key.Len(), key, err)
	// Output: 50 32 signature.Key(hmac-sha256, redacted) <nil>
}

// Receivers need only the public key of an Ed25519 pair.
func ExampleGenerateEd25519() {
	secret, public, err := signature.GenerateEd25519(rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	scheme, _ := signature.Lookup("standardwebhooks", "")
	sender, err1 := scheme.ParseKey(secret)
	receiver, err2 := scheme.ParseKey(public)
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(1767225600, 0)
	body := []byte(`{"n":1}`)
	header := http.Header{}
	if err := scheme.SetHeaders(header, signature.Message{ID: "evt_1", Timestamp: now.Unix(), Body: body}, sender); err != nil {
		fmt.Println(err)
		return
	}
	request := signature.Request{Header: header, Body: body}
	fmt.Println(scheme.Verify(request, []signature.Key{receiver}, now, scheme.Tolerance))
	// Output: <nil>
}
