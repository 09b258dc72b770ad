"""The vault file of an environment: `stacks/<env>/secrets.yml`, encrypted by Ansible Vault as a whole.

`ansible-vault view|edit stacks/<env>/secrets.yml` opens it as well. The password comes from the
environment (`GPUFLEET_VAULT_PASSWORD`), or from the file that `GPUFLEET_VAULT_PASSWORD_FILE` or
`ANSIBLE_VAULT_PASSWORD_FILE` names; it is never an argument.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import yaml

from gpufleet.containment import read_contained, repository_of
from gpufleet.errors import InputError
from gpufleet.files import write_atomically
from gpufleet.yaml_text import dump_yaml

PASSWORD = "GPUFLEET_VAULT_PASSWORD"  # noqa: S105 - the name of a variable
_PASSWORD_FILES = ("GPUFLEET_VAULT_PASSWORD_FILE", "ANSIBLE_VAULT_PASSWORD_FILE")
_LABEL = "default"
_LARGEST_BYTES = 16 * 1024 * 1024


def vault_password(environment: Mapping[str, str]) -> str:
    """Return the password, empty if none is set. Raises InputError for an unreadable file."""
    if environment.get(PASSWORD):
        return environment[PASSWORD]
    for name in _PASSWORD_FILES:
        if environment.get(name):
            path = Path(environment[name]).expanduser()
            try:
                return path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is no text"
                raise InputError(f"{name} names {path}: {reason}", remedy="name a readable file") from None
    return ""


def read_vault(path: Path, password: str) -> dict[str, str]:
    """The secrets in the vault file by name; none where there is no file.

    Raises InputError for a file that is not encrypted, a wrong or missing password, and content
    that is no mapping of names to texts.
    """
    if not os.path.lexists(path):
        return {}
    data = read_contained(path, str(path), within=repository_of(path), most=_LARGEST_BYTES)
    if not password:
        raise InputError(
            f"{path} is encrypted, and there is no password for it",
            remedy=f"set {PASSWORD}, or name a file with the password in {_PASSWORD_FILES[0]}",
        )
    from ansible.errors import AnsibleError
    from ansible.parsing.vault import is_encrypted

    if not is_encrypted(data):
        raise InputError(
            f"{path} is not encrypted",
            remedy=f"`ansible-vault encrypt {path}`, and take its secrets for known",
        )
    try:
        plain = _library(password).decrypt(data)
    except AnsibleError:
        raise InputError(f"the password does not open {path}", remedy=f"correct {PASSWORD}") from None
    try:
        content = yaml.safe_load(plain)
    except yaml.YAMLError:
        content = None
    if not isinstance(content, dict) or not all(isinstance(value, str) for value in content.values()):
        raise InputError(
            f"{path} does not hold a mapping of names to texts", remedy=f"`ansible-vault edit {path}`"
        )
    return {str(name): value for name, value in content.items()}


def write_vault(path: Path, password: str, secrets: Mapping[str, str]) -> None:
    """Write the secrets, encrypted, readable by their owner only."""
    if not password:
        raise InputError(
            f"there is no password to encrypt {path} with",
            remedy=f"set {PASSWORD}, or name a file with the password in {_PASSWORD_FILES[0]}",
        )
    text = dump_yaml(dict(sorted(secrets.items())))
    write_atomically(path, _library(password).encrypt(text).decode().rstrip("\n") + "\n", mode=0o600)


def _library(password: str):  # type: ignore[no-untyped-def]  # ansible-core has no types
    from ansible.parsing.vault import VaultLib, VaultSecret

    return VaultLib([(_LABEL, VaultSecret(password.encode()))])
