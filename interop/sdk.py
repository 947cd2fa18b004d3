"""Official Python SDKs on the other side of the wire.

    sdk.py verify < signed.ndjson    each request must verify, and not once it was changed
    sdk.py sign   > theirs.ndjson    requests that the SDKs signed, in the same form
"""

import base64
import datetime
import json
import sys

import standardwebhooks
import stripe
import svix.webhooks

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
BODIES = ['{"type":"order.paid","data":{"id":1}}', '{ "z":1,\t"a":"<b>&é ☂" }\n', "[]"]


def verify(request, body):
    scheme, secret, headers = request["scheme"], request["secret"], request["headers"]
    if scheme == "standardwebhooks":
        standardwebhooks.Webhook(secret).verify(body, headers)
    elif scheme == "svix":
        svix.webhooks.Webhook(secret).verify(body, headers)
    elif scheme == "stripe":
        stripe.WebhookSignature.verify_header(body.decode(), headers["stripe-signature"], secret, tolerance=300)
    else:
        raise SystemExit(f"no SDK for {scheme}")


def refused(request, body):
    try:
        verify(request, body)
    except Exception:  # each SDK has errors of its own
        return True
    return False


def sign(scheme, body, now):
    seconds = str(int(now.timestamp()))
    if scheme == "stripe":
        return {"stripe-signature": stripe.WebhookSignature.generate_signature_header(body, SECRET, int(seconds))}
    maker, prefix = {
        "standardwebhooks": (standardwebhooks.Webhook, "webhook"),
        "svix": (svix.webhooks.Webhook, "svix"),
    }[scheme]
    return {
        f"{prefix}-id": "msg_1",
        f"{prefix}-timestamp": seconds,
        f"{prefix}-signature": maker(SECRET).sign("msg_1", now, body),
    }


def main():
    if sys.argv[1] == "verify":
        count = 0
        for line in sys.stdin:
            request = json.loads(line)
            body = base64.b64decode(request["body"])
            verify(request, body)
            if not refused(request, body + b" "):
                raise SystemExit(f"{request['scheme']}: the SDK took a changed body: this check checks nothing")
            count += 1
        if count == 0:
            raise SystemExit("nothing to verify")
        print(f"python: {count} requests verified by the official SDKs")
        return
    now = datetime.datetime.now(datetime.timezone.utc)
    for scheme in ("standardwebhooks", "svix", "stripe"):
        for body in BODIES:
            print(json.dumps({
                "scheme": scheme, "secret": SECRET, "headers": sign(scheme, body, now),
                "body": base64.b64encode(body.encode()).decode(),
            }))


main()
