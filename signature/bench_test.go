package signature_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/signature"
)

func BenchmarkAppendSignature(b *testing.B) {
	for _, name := range []string{"standardwebhooks", "elido"} {
		s := lookup(b, name, "")
		key := mustKey(b, s, secretA)
		msg := testMessage()
		msg.Body = bytes.Repeat([]byte("x"), 1024)
		b.Run(name+"/1KiB", func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]byte, 0, 256)
			for b.Loop() {
				if _, err := s.AppendSignature(dst, msg, key); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/1KiB-one-key-on-all-cores", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				dst := make([]byte, 0, 256)
				for pb.Next() {
					if _, err := s.AppendSignature(dst, msg, key); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkParseKey(b *testing.B) {
	s := lookup(b, "standardwebhooks", "")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.ParseKey(secretA); err != nil {
			b.Fatal(err)
		}
	}
}

// The worst that a stranger can cause with a header: as many Ed25519
// signatures as are read, none of them good.
func BenchmarkVerifyWorstHeader(b *testing.B) {
	s := lookup(b, "standardwebhooks", "")
	secret, _, err := signature.GenerateEd25519(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		b.Fatal(err)
	}
	key := mustKey(b, s, secret)
	req := signedRequest(b, s, testMessage(), key)
	value := req.Header.Get(s.SignatureHeader)
	req.Header.Set(s.SignatureHeader, strings.Repeat(value[:8]+"AAAAAAAA"+value[16:]+" ", 23)+"v1,x")
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Verify(req, []signature.Key{key}, sentAt(), s.Tolerance); err == nil {
			b.Fatal("it passes")
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	s := lookup(b, "standardwebhooks", "")
	key := mustKey(b, s, secretA)
	msg := testMessage()
	msg.Body = bytes.Repeat([]byte("x"), 1024)
	req := signedRequest(b, s, msg, key)
	keys := []signature.Key{key}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Verify(req, keys, sentAt(), s.Tolerance); err != nil {
			b.Fatal(err)
		}
	}
}
