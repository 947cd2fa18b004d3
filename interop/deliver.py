"""Events through the running server to a receiver that checks with an official SDK.

    deliver.py SERVER KEY PORT COUNT

The receiver answers 500 to each event's first try, so that the retry's signature
is seen too. The server must be allowed to reach 127.0.0.1:PORT.
"""

import http.server
import json
import sys
import threading
import urllib.request

import standardwebhooks

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    tried, verified, faults = set(), {}, []
    lock, done, wanted = threading.Lock(), threading.Event(), 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        status = 200
        try:
            standardwebhooks.Webhook(SECRET).verify(body, dict(self.headers.items()))
        except Exception as fault:  # whatever the SDK has against it
            self.faults.append(f"{fault!r}: {self.headers}")
            status = 400
        message = self.headers["webhook-id"]
        with self.lock:
            if message not in self.tried:
                self.tried.add(message)
                status = 500
            elif status == 200:
                self.verified[message] = body
                if len(self.verified) == self.wanted:
                    self.done.set()
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def call(server, key, path, body):
    request = urllib.request.Request(
        server + path, json.dumps(body).encode(),
        {"authorization": f"Bearer {key}", "content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def main():
    server, key, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    Receiver.wanted = count
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    call(server, key, "/v1/endpoints",
         {"url": f"http://127.0.0.1:{port}/", "events": ["interop.*"], "secret": SECRET})
    sent = {}
    for n in range(count):
        data = {"n": n, "text": "<b>&é ☂", "spaces": "  "}
        sent[call(server, key, "/v1/events", {"type": "interop.sent", "data": data})["id"]] = data
    Receiver.done.wait(60)
    receiver.shutdown()
    if Receiver.faults:
        raise SystemExit("the official SDK refused: " + Receiver.faults[0])
    got = {message: json.loads(body)["data"] for message, body in Receiver.verified.items()}
    if got != sent:
        raise SystemExit(f"sent {len(sent)}, verified {len(got)} on their second try")
    print(f"deliveries: {count} events and their retries verified by the official SDK")


main()
