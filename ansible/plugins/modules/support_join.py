#!/usr/bin/python
"""One support bundle from the archives of all hosts, with an index that names missing hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: support_join
short_description: Combines the archives of all hosts
description:
  - Runs on the user's machine, on the fetched archives of M(gpufleet.rack.support_bundle).
  - Removes the secrets of this run again (environment variables C(GPUFLEET_SECRET_*)).
  - Writes the bundle atomically, readable only by its owner. Removes the archives of the hosts
    afterwards.
  - Archives of other hosts are from the run that this one resumes, and are included.
options:
  parts:
    description: Folder with C(<host>.tar.gz) of each host.
    type: path
    required: true
  output:
    description: Path of the bundle (C(.tar.gz)).
    type: path
    required: true
  hosts:
    description: All selected hosts. The index names those without an archive.
    type: list
    elements: str
    required: true
  operation:
    description:
      - ID of the operation, the same when it is resumed. An existing bundle with that ID keeps
        the data of hosts without a new archive.
    type: str
    default: ""
  about:
    description: Additional entries of the index, such as the environment.
    type: dict
    default: {}
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Combine the archives
  gpufleet.rack.support_join:
    parts: /tmp/parts
    output: /tmp/support.tar.gz
    hosts: [ctl01, dgx01]
  delegate_to: localhost
"""

RETURN = r"""
missing:
  description: Hosts without an archive, or with an unreadable one.
  type: list
  returned: success
size:
  description: Bytes of the bundle.
  type: int
  returned: success
"""

import io
import json
import os
import re
import shutil
import tarfile
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.redaction import forms, redact

INDEX = "index.json"
PREFIX = "GPUFLEET_SECRET_"
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Maximum size of a host's archive; a damaged one may claim more.
LONGEST = 64 << 20


def known() -> list[str]:
    """The secrets of this run, in all encodings."""
    return forms(value for name, value in os.environ.items() if name.startswith(PREFIX))


def members(path: Path) -> dict[str, bytes]:
    """The texts of a host's archive. Raises errors of tarfile for a damaged one."""
    found: dict[str, bytes] = {}
    total = 0
    with tarfile.open(path, "r:gz") as archive:
        for entry in archive:
            parts = Path(entry.name).parts
            if not entry.isreg() or not parts or ".." in parts or parts[0] == "/":
                continue
            total += entry.size
            if total > LONGEST:
                raise tarfile.ReadError("larger than any archive is")
            content = archive.extractfile(entry)
            found[entry.name] = content.read() if content is not None else b""
    return found


def former(path: Path, operation: str) -> dict[str, Any]:
    """Contents of the existing bundle by host; empty if it is damaged, or from another operation."""
    try:
        with tarfile.open(path, "r:gz") as bundle:
            content = bundle.extractfile(INDEX)
            index = json.loads(content.read()) if content is not None else {}
            return dict(index["hosts"]) if index["operation"] == operation else {}
    except (tarfile.TarError, OSError, EOFError, KeyError, ValueError, TypeError):
        return {}


def join(params: dict[str, Any], target: Path) -> list[str]:
    """Write the bundle; the missing hosts."""
    secrets = known()
    index: dict[str, Any] = dict(params["about"]) | {"created": stamp(), "hosts": {}, "missing": {}}
    index["operation"] = params["operation"]
    parts = {path.name.removesuffix(".tar.gz"): path for path in Path(params["parts"]).glob("*.tar.gz")}
    kept = former(Path(params["output"]), params["operation"]) if params["operation"] else {}
    with tarfile.open(target, "w:gz", compresslevel=6) as bundle:

        def add(name: str, content: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), 0o600, int(time.time())
            bundle.addfile(entry, io.BytesIO(content))

        for host in sorted({*params["hosts"], *parts, *kept}):
            if not HOST.fullmatch(host):
                raise RefusalError(f"{host!r} is no name of a host.")
            why = "the host was not reached, or failed"
            if host in parts:
                try:
                    texts = members(parts[host])
                    about = json.loads(texts.pop(INDEX))
                except (tarfile.TarError, OSError, EOFError, KeyError, ValueError) as error:
                    why = f"its archive cannot be read: {error}"
                else:
                    for name, content in texts.items():
                        add(f"{host}/{name}", redact(content.decode("utf-8", "replace"), secrets).encode())
                    index["hosts"][host] = about
                    continue
            if host not in kept:
                index["missing"][host] = why
        rest = kept.keys() - index["hosts"].keys()
        if rest:
            index["hosts"] |= {host: kept[host] for host in rest}
            with tarfile.open(params["output"], "r:gz") as before:
                for entry in before:
                    content = before.extractfile(entry)
                    if content is not None and entry.name.partition("/")[0] in rest:
                        add(entry.name, content.read())
        add(INDEX, json.dumps(index, indent=1).encode())
    return sorted(index["missing"])


def stamp() -> str:
    """The current time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Combine; the result for Ansible."""
    if check:
        return {"changed": False, "missing": [], "size": 0}
    output = Path(params["output"])
    output.parent.mkdir(parents=True, exist_ok=True)
    new = output.with_name(f".{output.name}.new")
    try:
        os.close(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600))
        missing = join(params, new)
        new.rename(output)
    except OSError as error:
        raise RefusalError(
            f"{output} cannot be written: {error.strerror}. Name another path with -o output=."
        ) from error
    finally:
        new.unlink(missing_ok=True)
    shutil.rmtree(params["parts"], ignore_errors=True)
    return {"changed": False, "missing": missing, "size": output.stat().st_size}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "parts": {"type": "path", "required": True},
            "output": {"type": "path", "required": True},
            "hosts": {"type": "list", "elements": "str", "required": True},
            "operation": {"type": "str", "default": ""},
            "about": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
