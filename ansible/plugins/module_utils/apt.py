"""apt and dpkg as programs: transactions with retries, and explained errors."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

STAMP = Path("/var/lib/gpufleet/apt.json")
POLICY = Path("/usr/sbin/policy-rc.d")
MARK = "# gpufleet: a run of apt is under way"
LISTS_AGE_S = 3600
FETCH = re.compile(
    r"failed to fetch|unable to fetch|could not resolve|could not connect|connection (refused|timed out)"
    r"|temporary failure|not found on server|404",
    re.I,
)
NO_REMOVE = re.compile(r"remove is disabled", re.I)
LOCKED = re.compile(r"could not (get|open) lock|unable to (acquire|lock)|is locked by|frontend lock", re.I)


class PackageRequest(NamedTuple):
    """A package and its version pattern."""

    name: str
    version: str
    others: tuple[PackageRequest, ...] = ()

    @classmethod
    def of(cls, text: str) -> PackageRequest:
        """Parse C(name) or C(name=version), or alternatives separated by C(|)."""
        first, *rest = text.split("|")
        name, _, version = first.partition("=")
        return cls(name.strip(), version.strip() or "*", tuple(cls.of(other) for other in rest))

    def ways(self) -> tuple[PackageRequest, ...]:
        """All alternatives, the preferred one first."""
        return (self, *self.others)

    def suits(self, version: str) -> bool:
        """Whether a version matches."""
        return fnmatch.fnmatchcase(version, self.version)


class Transaction(NamedTuple):
    """What apt would remove and downgrade (name, old and new version)."""

    removed: list[str]
    downgraded: list[tuple[str, str, str]]

    def lines(self, named: list[str]) -> list[str]:
        """One line each, for a diff. The run refuses removals that are not `named`."""
        refused = {name: "" if name in named else ", which the run refuses" for name in self.removed}
        downgrades = [f"{name} would be downgraded from {old} to {new}" for name, old, new in self.downgraded]
        return [f"{name} would be removed{note}" for name, note in refused.items()] + downgrades


class Apt:
    """Run apt and dpkg, wait for locks, and explain errors."""

    def __init__(self, lock_timeout_s: int, install_recommends: bool) -> None:
        self.deadline = time.monotonic() + lock_timeout_s
        self.lock_timeout_s = lock_timeout_s
        self.recommends = install_recommends
        self.updated = False
        self.complaints = ""
        self.environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command; retry while another process holds a lock."""
        while True:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                env=self.environment,
                stdin=subprocess.DEVNULL,
            )
            if done.returncode == 0 or not LOCKED.search(done.stderr):
                return done
            if time.monotonic() > self.deadline:
                raise RefusalError(
                    f"{last_lines(done.stderr)} One program at a time may change packages; this one waited "
                    f"{self.lock_timeout_s} s. Wait for it or stop it, then run again."
                )
            time.sleep(1)

    def update(self) -> None:
        """Update the package lists once."""
        if self.updated:
            return
        done = self.run("apt-get", "update", "-q", "-o", "Acquire::Retries=2")
        self.updated = True
        self.complaints = "\n".join(
            line for line in done.stderr.splitlines() if line.startswith(("E:", "W:")) and FETCH.search(line)
        )
        if done.returncode == 0 and not self.complaints:
            write_stamp()

    def candidates(self, names: list[str]) -> dict[str, list[str]]:
        """Versions in the repositories, newest first."""
        done = self.run("apt-cache", "madison", *names)
        found: dict[str, list[str]] = {name: [] for name in names}
        for line in done.stdout.splitlines():
            parts = [part.strip() for part in line.split("|")]
            if len(parts) == 3 and "Sources" not in parts[2] and parts[0] in found:
                found[parts[0]].append(parts[1])
        return found

    def choose(self, install: list[PackageRequest]) -> list[str]:
        """The packages in apt syntax; raises if no repository has a matching version."""
        names = [way.name for w in install for way in w.ways()]
        if names and stale():
            self.update()
        for _ in range(2):
            have = self.candidates(names) if names else {}
            lacking = [
                w for w in install if not any(way.suits(v) for way in w.ways() for v in have[way.name])
            ]
            if not lacking:
                break
            self.update()
        if lacking:
            self.refuse(lacking, have)
        return self.pick(install, have)

    @staticmethod
    def pick(install: list[PackageRequest], have: dict[str, list[str]]) -> list[str]:
        """The first available alternative of each, in apt syntax."""
        chosen = []
        for w in install:
            way = next(way for way in w.ways() if any(way.suits(v) for v in have[way.name]))
            if way.version == "*":
                chosen.append(way.name)
            else:
                chosen.append(f"{way.name}={next(v for v in have[way.name] if way.suits(v))}")
        return chosen

    def refuse(self, lacking: list[PackageRequest], have: dict[str, list[str]]) -> None:
        """Raise with the packages that no repository has."""
        if self.complaints:
            raise RefusalError(
                f"A package repository does not answer: {last_lines(self.complaints)} "
                f"Needed from it: {', '.join(w.name for w in lacking)}. Make it reachable from the host and "
                "run again; nothing was installed."
            )
        errors = []
        for w in (way for entry in lacking for way in entry.ways()):
            others = ", ".join(have[w.name][:4])
            wants = "" if w.version == "*" else f" in version {w.version}"
            errors.append(f"{w.name}{wants} ({'there is ' + others if others else 'not there at all'})")
        raise RefusalError(
            f"No repository of the host has {'; '.join(errors)}. Add the repository or mirror that has "
            "it, or choose another version in the software channel, then run again; nothing was installed."
        )

    def change(self, install: list[PackageRequest], remove: list[str]) -> None:
        """Install and remove in one transaction; raises on failure."""
        done = self.transact(self.choose(install), remove)
        if done.returncode and FETCH.search(done.stderr) and not self.updated:
            self.update()  # the lists may be older than the repository
            done = self.transact(self.choose(install), remove)
        if done.returncode:
            raise RefusalError(explain(done.stderr or done.stdout))

    def transact(self, words: list[str], remove: list[str]) -> subprocess.CompletedProcess[str]:
        """One apt transaction, refused if it would remove other packages than `remove`."""
        gone = [f"{name}-" for name in remove]
        if remove:
            refuse_removals(self.simulate(words, remove), words, remove)
            return self.install(*words, *gone)
        done = self.install("--no-remove", *words)
        if done.returncode and NO_REMOVE.search(done.stderr):
            refuse_removals(self.simulate(words, remove), words, remove)
        return done

    def simulate(self, words: list[str], remove: list[str]) -> Transaction:
        """What the transaction would do, without a lock and without a change."""
        done = self.install("--simulate", *words, *(f"{name}-" for name in remove))
        if done.returncode:
            raise RefusalError(explain(done.stderr or done.stdout))
        return parse_simulation(done.stdout)

    def foresee(self, install: list[PackageRequest], remove: list[str]) -> Transaction | None:
        """What the transaction would do by the host's package lists and pins; None if that is unknown.

        Lists may lack a package, and pins that the run writes before may be missing.
        """
        names = [way.name for w in install for way in w.ways()]
        have = self.candidates(names) if names else {}
        if any(not any(way.suits(v) for way in w.ways() for v in have[way.name]) for w in install):
            return None
        try:
            return self.simulate(self.pick(install, have), remove)
        except RefusalError:
            return None

    def install(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `apt-get install`."""
        return self.run(
            *("apt-get", "install", "-y", "-q", "--allow-downgrades", "--allow-change-held-packages"),
            *("-o", f"DPkg::Lock::Timeout={self.lock_timeout_s}", "-o", "Acquire::Retries=2"),
            *("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"),
            *("-o", f"APT::Install-Recommends={'true' if self.recommends else 'false'}"),
            *words,
        )

    def must(self, *command: str) -> None:
        """Run a command that must succeed."""
        done = self.run(*command)
        if done.returncode:
            raise RefusalError(explain(done.stderr or done.stdout))


def parse_simulation(text: str) -> Transaction:
    """Lines `Remv name [version]` and `Inst name [old] (new origin [architecture])` of apt-get."""
    removed = re.findall(r"^Remv (\S+)", text, re.M)
    changed = re.findall(r"^Inst (\S+) \[(\S+)\] \((\S+) ", text, re.M)
    older = [entry for entry in changed if is_older(entry[2], entry[1])]
    return Transaction([name.partition(":")[0] for name in removed], older)


def is_older(version: str, other: str) -> bool:
    """Whether a Debian version is lower than another one."""
    return subprocess.run(["dpkg", "--compare-versions", version, "lt", other], check=False).returncode == 0


def refuse_removals(found: Transaction, words: list[str], remove: list[str]) -> None:
    """Raise for packages that apt would remove and that were not named."""
    others = sorted(set(found.removed) - set(remove))
    if others:
        listed = " ".join(others)
        raise RefusalError(
            f"To install {' '.join(words)} apt would also remove {listed}, which the role does not name. "
            f"If nothing needs them, remove them (`apt-get remove {listed}`) and run again; nothing was "
            "installed."
        )


class NoStarts:
    """Prevent package scripts from starting services while this process lives."""

    def __enter__(self) -> None:
        self.ours = not POLICY.exists() or MARK in POLICY.read_text()
        if self.ours:
            # Remove the policy when this process ends, also after a kill.
            POLICY.write_text(f"#!/bin/sh\n{MARK}\nkill -0 {os.getpid()} 2>/dev/null && exit 101\nexit 0\n")
            POLICY.chmod(0o755)

    def __exit__(self, *_: object) -> None:
        if self.ours:
            POLICY.unlink(missing_ok=True)


def last_lines(text: str, count: int = 3) -> str:
    """The last lines of a program's output, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")] or lines
    return " ".join(errors[-count:])


def explain(text: str) -> str:
    """The output of apt, with an explanation if it is known."""
    errors = last_lines(text)
    if "no space left" in text.lower() or "don't have enough free space" in text.lower():
        return f"The disk is full: {errors} Make room (apt-get clean) and run again."
    if FETCH.search(text):
        return (
            f"A package repository does not answer: {errors} Make it reachable from the host and run again."
        )
    return f"apt could not do it: {errors} Run `apt-get -f install` on the host to see why, then run again."


def source_digest() -> str:
    """The repositories of the host."""
    digest = hashlib.sha256()
    for name in sorted(["/etc/apt/sources.list", *map(str, Path("/etc/apt/sources.list.d").glob("*"))]):
        try:
            digest.update(name.encode() + b"\0" + Path(name).read_bytes())
        except OSError:
            continue
    return digest.hexdigest()


def stale() -> bool:
    """Whether the lists are old, or from other repositories."""
    try:
        stamp = json.loads(STAMP.read_text())
        return bool(stamp["sources"] != source_digest() or not 0 <= time.time() - stamp["at"] < LISTS_AGE_S)
    except (OSError, ValueError, KeyError, TypeError):
        return True


def write_stamp() -> None:
    """Record that the lists match the current repositories."""
    STAMP.parent.mkdir(parents=True, exist_ok=True)
    STAMP.write_text(json.dumps({"sources": source_digest(), "at": time.time()}))
