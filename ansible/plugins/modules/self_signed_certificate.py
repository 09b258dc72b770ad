#!/usr/bin/python
"""A self-signed certificate for one service, which its clients trust as it is."""

from __future__ import annotations

DOCUMENTATION = r"""
module: self_signed_certificate
short_description: Makes a self-signed certificate for a service
description:
  - Makes C(tls.crt) and C(tls.key) in a folder that only root can read, with C(openssl). Clients trust the
    certificate itself, so that no authority is needed.
  - Makes a new one where there is none, where it is for another name, and where it ends within a year.
options:
  path:
    description: Folder of both files.
    type: path
    required: true
  name:
    description: The name of the host that clients connect to.
    type: str
    required: true
  days:
    description: Days until it ends.
    type: int
    default: 3650
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Make a certificate for metrics
  gpufleet.rack.self_signed_certificate:
    path: /etc/kubernetes/gpufleet/metrics
    name: ctl01
"""

RETURN = r"""
reason:
  description: Why it was made; empty if the old one stays.
  type: str
  returned: success
"""

import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish

YEAR_S = 365 * 86400


def openssl(*words: str) -> subprocess.CompletedProcess[str]:
    """Run openssl."""
    return subprocess.run(["openssl", *words], capture_output=True, text=True, check=False, timeout=60)


def outdated(certificate: Path, key: Path, name: str) -> str:
    """Why a new certificate is needed; empty if it is not."""
    if not (certificate.is_file() and key.is_file()):
        return "there is none"
    # openssl verify has no exit code for the name in all versions: -checkhost says it in words.
    if "does match" not in openssl("x509", "-in", str(certificate), "-noout", "-checkhost", name).stdout:
        return f"it is not for {name}"
    if openssl("x509", "-in", str(certificate), "-noout", "-checkend", str(YEAR_S)).returncode:
        return "it ends within a year"
    return ""


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare and make; the result for Ansible."""
    folder = Path(params["path"])
    certificate, key = folder / "tls.crt", folder / "tls.key"
    reason = outdated(certificate, key, params["name"])
    if reason and not check:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The old pair stays complete until both new files are there.
        fresh = [path.with_suffix(f"{path.suffix}.new") for path in (certificate, key)]
        fresh[1].touch(mode=0o600)
        done = openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", str(params["days"]), "-subj", f"/CN={params['name']}"),
            *("-addext", f"subjectAltName=DNS:{params['name']}", "-addext", "extendedKeyUsage=serverAuth"),
            *("-out", str(fresh[0]), "-keyout", str(fresh[1])),
        )
        if done.returncode:
            raise RefusalError(
                f"openssl made no certificate for {params['name']}: {done.stderr.strip()[-500:]}"
            )
        fresh[0].chmod(0o600)
        for new, old in zip(fresh, (certificate, key), strict=True):
            new.replace(old)
    return {"changed": bool(reason), "reason": reason}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "days": {"type": "int", "default": 3650},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
