"""posthorn verify against requests that official SDKs signed.

    ours.py POSTHORN < theirs.ndjson

Each request must be accepted, and refused once a byte of its body was changed.
"""

import base64
import json
import subprocess
import sys


def verify(posthorn, request, body):
    args = [posthorn, "verify", "--scheme", request["scheme"], "--secret", request["secret"]]
    for name, value in request["headers"].items():
        args += ["--header", f"{name}: {value}"]
    return subprocess.run(args, input=body, capture_output=True, check=False)


def main():
    posthorn, count = sys.argv[1], 0
    for line in sys.stdin:
        request = json.loads(line)
        body = base64.b64decode(request["body"])
        good = verify(posthorn, request, body)
        if good.returncode != 0:
            raise SystemExit(f"{request['scheme']}: refused: {good.stdout.decode()}{good.stderr.decode()}\n{line}")
        bad = verify(posthorn, request, body + b" ")
        if bad.returncode != 1:
            raise SystemExit(f"{request['scheme']}: a changed body got exit code {bad.returncode}")
        count += 1
    if count == 0:
        raise SystemExit("nothing to verify")
    print(f"posthorn: {count} requests of official SDKs verified")


main()
