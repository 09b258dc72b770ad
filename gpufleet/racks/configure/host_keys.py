"""The first contact with a host: its key as the network shows it, against the key that people expect."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gpufleet.errors import CloudError, InputError, RefusedError
from gpufleet.files import write_atomically
from gpufleet.racks.configure.known_hosts import SSH_PORT, fingerprint, known_name
from gpufleet.racks.configure.targets import Connections

Verdict = Literal["matches", "differs", "not-declared", "no-answer"]

# One process asks this many hosts, each of which may take the time out to answer.
_AT_ONCE = 64
_TIMEOUT_S = 5


class FoundKeys(Struct, frozen=True):
    """The keys of one host. `lines` are for known_hosts; of a host that differs or is silent, none."""

    host: str
    name: str
    verdict: Verdict
    fingerprints: tuple[str, ...]
    lines: tuple[str, ...]


def scan(hosts: Connections, declared: Mapping[str, str]) -> list[FoundKeys]:
    """Ask hosts for their keys and compare them with the declared fingerprints, by host name.

    A host with a declared fingerprint matches when one of its keys has it, and then only that key
    is taken. Raises InputError when ssh-keyscan does not run.
    """
    by_name: dict[str, list[tuple[str, str]]] = {}
    ports: dict[int, list[str]] = {}
    for address, port in hosts.values():
        ports.setdefault(port, []).append(address)
    for port, addresses in ports.items():
        for start in range(0, len(addresses), _AT_ONCE):
            for address, kind, key in _keyscan(port, addresses[start : start + _AT_ONCE]):
                by_name.setdefault(known_name(address, port), []).append((kind, key))
    return [
        _judge(host, known_name(*connection), by_name.get(known_name(*connection), []), declared.get(host))
        for host, connection in hosts.items()
    ]


def shown_keys(host: str, name: str, keys: Sequence[tuple[str, str]]) -> FoundKeys:
    """The keys of a host from where nobody else can write: they match."""
    prints = tuple(fingerprint(key) for _, key in keys)
    lines = tuple(f"{name} {kind} {key}" for kind, key in keys)
    return FoundKeys(host, name, "matches" if keys else "no-answer", prints, lines)


def renew_key(host: str, connection: tuple[str, int], wanted: str, file: Path) -> None:
    """Replaces the known key of a host by the one that it shows, if that has the wanted fingerprint.

    Raises CloudError when the host does not answer, and RefusedError when it shows another key: `file`
    is as it was then. Keys that ssh knows from other files are not touched.
    """
    (found,) = scan({host: connection}, {host: wanted})
    if found.verdict == "no-answer":
        raise CloudError(
            f"{host} does not answer as {found.name}", remedy="see that the new hardware is up, with sshd"
        )
    if found.verdict != "matches":
        raise RefusedError(
            f"{host} shows a key with {', '.join(found.fingerprints)} and not {wanted}",
            remedy="compare with `ssh-keygen -lf` on its console; find out who answers before anything else",
        )
    before = file.read_text(encoding="utf-8") if file.is_file() else ""
    kept = [line for line in before.splitlines() if line.partition(" ")[0].lower() != found.name]
    text = "".join(f"{line}\n" for line in (*kept, *found.lines))
    if text != before:
        write_atomically(file, text)


def forget_keys(connections: Iterable[tuple[str, int]], file: Path) -> None:
    """Remove the known keys of hosts from `file`. Other files of ssh are the user's own."""
    if not file.is_file():
        return
    names = {known_name(address, port) for address, port in connections}
    before = file.read_text(encoding="utf-8")
    lines = before.splitlines()
    text = "".join(f"{line}\n" for line in lines if line.partition(" ")[0].lower() not in names)
    if text != before:
        write_atomically(file, text)


def _judge(host: str, name: str, keys: list[tuple[str, str]], wanted: str | None) -> FoundKeys:
    prints = tuple(fingerprint(key) for _, key in keys)
    if not keys:
        return FoundKeys(host, name, "no-answer", (), ())
    if wanted is None:
        return FoundKeys(
            host, name, "not-declared", prints, tuple(f"{name} {kind} {key}" for kind, key in keys)
        )
    lines = tuple(f"{name} {kind} {key}" for kind, key in keys if fingerprint(key) == wanted)
    return FoundKeys(host, name, "matches" if lines else "differs", prints, lines)


def _keyscan(port: int, addresses: list[str]) -> list[tuple[str, str, str]]:
    command = ["ssh-keyscan", "-T", str(_TIMEOUT_S), "-p", str(port), *addresses]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise InputError(
            f"ssh-keyscan does not run: {error.strerror}", remedy="install the OpenSSH client"
        ) from None
    found = []
    for line in done.stdout.splitlines():
        fields = line.split()
        if len(fields) == 3 and not line.startswith("#"):
            name = fields[0]
            if port != SSH_PORT and name.startswith("[") and "]:" in name:
                name = name[1 : name.rindex("]:")]
            found.append((name, fields[1], fields[2]))
    return found
