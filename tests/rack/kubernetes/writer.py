"""Runs on a host: writes one ConfigMap after the other and reads each again, `writer.py URL FOLDER`.

FOLDER has an administrator's credentials (`ca.crt`, `admin.crt`, `admin.key`). Each object that the API
server acknowledged becomes a line of JSON in `log`; the file `end` ends the program. A request that fails is
repeated: whether it had an effect is not known, so the object may exist then.
"""

from __future__ import annotations

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

URL, FOLDER = sys.argv[1:]
PATH = f"{URL}/api/v1/namespaces/default/configmaps"
TLS = ssl.create_default_context(cafile=f"{FOLDER}/ca.crt")
TLS.load_cert_chain(f"{FOLDER}/admin.crt", f"{FOLDER}/admin.key")


def call(method: str, path: str, body: object, known: int) -> Any:
    """The answer of the API server, asked until it gives one; None if it is the error code `known`."""
    while True:
        request = urllib.request.Request(PATH + path, json.dumps(body).encode() if body else None)
        request.method = method
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=5, context=TLS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == known:
                return None
        except OSError:
            pass
        time.sleep(0.1)


with Path(FOLDER, "log").open("a", buffering=1) as log:
    number = 0
    while not Path(FOLDER, "end").exists():
        number += 1
        name, text = f"written-{number}", str(number)
        call("POST", "", {"metadata": {"name": name, "labels": {"writer": "test"}}, "data": {"n": text}}, 409)
        read = (call("GET", f"/{name}", None, 404) or {}).get("data", {}).get("n")
        log.write(json.dumps({"n": number, "at": time.monotonic(), "read": read == text}) + "\n")
        time.sleep(0.2)
