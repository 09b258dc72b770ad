#!/usr/bin/python
"""Package repositories of vendors, each with one key of a known fingerprint."""

from __future__ import annotations

DOCUMENTATION = r"""
module: repositories
short_description: Adds package repositories with verified keys
description:
  - Adds apt sources as C(/etc/apt/sources.list.d/gpufleet-*.list) and removes obsolete ones.
  - Downloads the key of a repository once, keeps only the key with the given fingerprint, and refuses others.
  - Skips a repository that another apt file already lists.
  - In check mode nothing is downloaded.
options:
  repositories:
    description: All vendor repositories of the host.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Short name, used in file names.
        type: str
        required: true
      url:
        description: Web folder.
        type: str
        required: true
      suite:
        description: Suite and components; C(./) is a flat repository.
        type: str
        default: ./
      key_url:
        description: URL of the key, or its absolute path on the host.
        type: str
        default: ""
      fingerprint:
        description: Fingerprint of the primary key, 40 hexadecimal digits.
        type: str
        default: ""
      keyring:
        description: Existing keyring of the host, instead of C(key_url); empty for the keys that apt trusts.
        type: str
        default: ""
      hosts:
        description: For the caller; not used by this module.
        type: str
        default: ""
      priority:
        description: Pin priority of its packages; 0 for the default.
        type: int
        default: 0
  timeout_s:
    description: Time limit in seconds of a download.
    type: int
    default: 30
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Add the vendor repositories
  gpufleet.rack.repositories:
    repositories:
      - name: cuda
        url: https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64
        key_url: https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/3bf863cc.pub
        fingerprint: EB693B3035CD5710E231E123A4B469963BF863CC
"""

RETURN = r"""
changed_files:
  description: Written or removed files.
  type: list
  returned: always
elsewhere:
  description: Repositories that another apt file lists, with that file.
  type: dict
  returned: always
"""

import binascii
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.openpgp import keys_in
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish

SOURCES = Path("/etc/apt/sources.list.d")
KEYS = Path("/etc/apt/keyrings")
PREFERENCES = Path("/etc/apt/preferences.d")
PREFIX = "gpufleet-"
# Other roles write preferences too; these are only for repositories.
PIN_PREFIX = "gpufleet-repository-"
HEADER = "# Written by gpufleet, which overwrites it.\n"
ATTEMPTS = 3


def bare(url: str) -> str:
    """Normalize a URL, since two apt files may write it differently."""
    return re.sub(r"^https?://", "", url.strip()).rstrip("/").lower()


def urls_in(text: str) -> Iterator[str]:
    """URLs of all active sources in an apt file, of either format."""
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if words[:1] in (["deb"], ["URIs:"]):
            yield from (bare(word) for word in words if "://" in word)


def elsewhere(wanted: list[dict[str, Any]], ours: set[Path]) -> dict[str, str]:
    """Repositories that a foreign file lists, with that file."""
    found = {}
    files = [
        SOURCES.parent / "sources.list",
        *sorted(SOURCES.glob("*.list")),
        *sorted(SOURCES.glob("*.sources")),
    ]
    for path in files:
        if path in ours or path.name.startswith(PREFIX) or not path.is_file():
            continue
        named = set(urls_in(path.read_text(errors="replace")))
        found.update({item["name"]: str(path) for item in wanted if bare(item["url"]) in named})
    return found


def fetch_key(item: dict[str, Any], timeout_s: int) -> bytes:
    """The packets of the key with the given fingerprint."""
    want = item["fingerprint"].replace(" ", "").upper()
    data = read_key(item["key_url"], timeout_s)
    try:
        keys = keys_in(data)
    except (ValueError, binascii.Error, IndexError) as error:
        raise RefusalError(
            f"{item['key_url']} is not an OpenPGP key ({error}). The key of repository "
            f"{item['name']} has to come from there, unchanged by any proxy; nothing was added."
        ) from None
    if want not in keys:
        raise RefusalError(
            f"{item['key_url']} has the key {', '.join(sorted(keys)) or '(none)'}, and {item['name']} is "
            f"trusted only with {want}. Do not continue before the vendor has confirmed another key; "
            "nothing was added."
        )
    return keys[want]


def read_key(source: str, timeout_s: int) -> bytes:
    """Read a key from a file of the host, or download it."""
    if not source.startswith("/"):
        return download(source, timeout_s)
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise RefusalError(
            f"{source} could not be read: {error.strerror}. Copy the key of the repository to that file on"
            " the host, or give its web address."
        ) from None


def download(url: str, timeout_s: int) -> bytes:
    """Download a URL, with retries."""
    # Imported here: it takes half a second, and most runs find their keys on the host.
    from ansible.module_utils.urls import open_url

    for attempt in range(ATTEMPTS):
        try:
            with open_url(url, timeout=timeout_s) as answer:
                return bytes(answer.read(1 << 20))
        except (OSError, URLError) as error:
            problem = str(error)
            time.sleep(attempt)
    raise RefusalError(
        f"{url} could not be downloaded: {problem}. Hosts need it once to trust the repository: let them "
        "reach it, directly or through a proxy, or set package_mirror of the site."
    )


def key_fits(path: Path, fingerprint: str) -> bool:
    """Whether a keyring has exactly the one key."""
    try:
        return set(keys_in(path.read_bytes())) == {fingerprint.replace(" ", "").upper()}
    except (OSError, ValueError, binascii.Error, IndexError):
        return False


def source_line(item: dict[str, Any], keyring: str) -> str:
    """The text of a source file."""
    options = f" [signed-by={keyring}]" if keyring else ""
    return f"{HEADER}deb{options} {item['url'].rstrip('/')} {item['suite']}\n"


def preference(item: dict[str, Any]) -> str:
    """The text of a preferences file."""
    host = urlsplit(item["url"]).hostname
    return f'{HEADER}Package: *\nPin: origin "{host}"\nPin-Priority: {item["priority"]}\n'


def write(path: Path, data: bytes) -> None:
    """Replace a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
    Path(name).chmod(0o644)
    Path(name).replace(path)


def check_item(item: dict[str, Any]) -> None:
    """Refuse an entry without a verified key."""
    if not re.fullmatch(r"[a-z0-9-]+", item["name"]):
        raise RefusalError(
            f"{item['name']!r} is no name of a repository; use small letters, digits and hyphens."
        )
    if not item["key_url"]:
        return
    if not re.fullmatch(r"[0-9A-F]{40}", item["fingerprint"].replace(" ", "").upper()):
        raise RefusalError(
            f"Repository {item['name']} ({item['url']}) has the fingerprint {item['fingerprint']!r}; a key "
            "is trusted by the 40 hexadecimal digits of its fingerprint only. Ask the vendor for it "
            f"(`gpg --show-keys` says it of {item['key_url']}), or set package_mirror of the site."
        )
    if item["keyring"]:
        raise RefusalError(f"Repository {item['name']} has both a key_url and a keyring; give one of them.")


def work(wanted: list[dict[str, Any]], timeout_s: int, check: bool) -> dict[str, Any]:
    """Write and remove files."""
    for item in wanted:
        check_item(item)
    there = elsewhere(wanted, set())
    mine = [item for item in wanted if item["name"] not in there]
    texts: dict[Path, bytes] = {}
    keys: dict[Path, dict[str, Any]] = {}
    for item in mine:
        keyring = item["keyring"]
        if item["key_url"]:
            path = KEYS / f"{PREFIX}{item['name']}.gpg"
            keys[path], keyring = item, str(path)
        elif keyring and not Path(keyring).is_file():
            raise RefusalError(
                f"The keyring {keyring} of repository {item['name']} is not on the host. Put the mirror's "
                "key there, or leave base_package_mirror_keyring empty for one that apt trusts already."
            )
        texts[SOURCES / f"{PREFIX}{item['name']}.list"] = source_line(item, keyring).encode()
        if item["priority"]:
            texts[PREFERENCES / f"{PIN_PREFIX}{item['name']}"] = preference(item).encode()
    obsolete = sorted(
        path
        for folder, prefix in ((SOURCES, PREFIX), (KEYS, PREFIX), (PREFERENCES, PIN_PREFIX))
        for path in folder.glob(f"{prefix}*")
        if path not in texts and path not in keys
    )
    lacking = [path for path, item in keys.items() if not key_fits(path, item["fingerprint"])]
    differing = [path for path, text in texts.items() if not path.is_file() or path.read_bytes() != text]
    if not check:
        # Keys first: a source without its key would break apt.
        for path in lacking:
            write(path, fetch_key(keys[path], timeout_s))
        for path in differing:
            write(path, texts[path])
        for path in obsolete:
            path.unlink()
    changed = [str(path) for path in (*lacking, *differing, *obsolete)]
    return {
        "changed": bool(changed),
        "changed_files": changed,
        "elsewhere": there,
        "diff": [
            *(
                {"after_header": str(p), "before": "", "after": f"key {keys[p]['fingerprint']}\n"}
                for p in lacking
            ),
            *({"after_header": str(p), "before": "", "after": texts[p].decode()} for p in differing),
            *({"after_header": str(p), "before": "present\n", "after": ""} for p in obsolete),
        ],
    }


def main() -> None:
    """Entry point."""
    # URLs of public keys are not secret, although Ansible assumes so from their names.
    text = {"type": "str", "default": "", "no_log": False}
    item = {
        "name": {"type": "str", "required": True},
        "url": {"type": "str", "required": True},
        "suite": {"type": "str", "default": "./"},
        "key_url": text,
        "fingerprint": text,
        "keyring": text,
        "hosts": text,
        "priority": {"type": "int", "default": 0},
    }
    module = AnsibleModule(
        argument_spec={
            "repositories": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": item,
                "no_log": False,
            },
            "timeout_s": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    params = module.params
    finish(module, lambda: work(params["repositories"], params["timeout_s"], module.check_mode))


if __name__ == "__main__":
    main()
