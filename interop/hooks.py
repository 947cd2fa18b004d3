"""What schemathesis does not know by itself: bodies of JSON lines."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def ndjson(_context, value):
    """Writes a generated body as lines; one that is text stands as it is."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    rows = value if isinstance(value, list) else [value]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()
