#!/usr/bin/python
"""Debian packages in the versions that a role names, the same in check mode as in a real run."""

from __future__ import annotations

DOCUMENTATION = r"""
module: packages
short_description: Debian packages in given versions
description:
  - Installs, upgrades, downgrades, removes and holds packages in one transaction.
  - Asks dpkg and not apt's lists what has to be done, so that check mode needs no repository.
  - Services are not started by the packages' scripts; M(gpufleet.rack.units) starts them.
  - Finishes what a broken run of dpkg left, and waits for apt's lock.
options:
  names:
    description:
      - Packages, as C(name) or C(name=version); the version may have C(*).
      - Of alternatives, C(one|other), the first is installed that a repository has, if none is there.
    type: list
    elements: str
    default: []
  absent:
    description: Packages that must not be installed; C(*), C(?) and C([]) match as in a shell.
    type: list
    elements: str
    default: []
  hold:
    description: Packages that C(apt upgrade) must not move; patterns match among those that are installed.
    type: list
    elements: str
    default: []
  install_recommends:
    description: Whether recommended packages are installed too.
    type: bool
    default: false
  lock_timeout_s:
    description: Seconds to wait for another apt or dpkg.
    type: int
    default: 300
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Install the driver
  gpufleet.rack.packages:
    names: ["nvidia-open=580.159.03-*"]
    hold: [nvidia-open]
"""

RETURN = r"""
before:
  description: Lines of packages as they were, of those that changed.
  type: list
  returned: always
after:
  description: The same packages as they are now, or would be.
  type: list
  returned: always
"""

import fnmatch
import hashlib
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

STAMP = Path("/var/lib/gpufleet/apt.json")
POLICY = Path("/usr/sbin/policy-rc.d")
MARK = "# gpufleet: a run of apt is under way"
LISTS_AGE_S = 3600
FETCH = re.compile(
    r"failed to fetch|unable to fetch|could not resolve|could not connect|connection (refused|timed out)"
    r"|temporary failure|not found on server|404",
    re.I,
)
LOCKED = re.compile(r"could not (get|open) lock|unable to (acquire|lock)|is locked by|frontend lock", re.I)


class Wanted(NamedTuple):
    """A package, and what its version has to match."""

    name: str
    version: str
    others: tuple[Wanted, ...] = ()

    @classmethod
    def of(cls, text: str) -> Wanted:
        """From C(name) or C(name=version), or alternatives of these with C(|) between them."""
        first, *rest = text.split("|")
        name, _, version = first.partition("=")
        return cls(name.strip(), version.strip() or "*", tuple(cls.of(other) for other in rest))

    def ways(self) -> tuple[Wanted, ...]:
        """All alternatives, the preferred one first."""
        return (self, *self.others)

    def met(self, there: dict[str, Installed]) -> bool:
        """Whether one of the alternatives is installed."""
        return any(way.name in there and way.suits(there[way.name].version) for way in self.ways())

    def suits(self, version: str) -> bool:
        """Whether a version is the one that is wanted."""
        return fnmatch.fnmatchcase(version, self.version)


class Installed(NamedTuple):
    """A package as dpkg knows it."""

    version: str
    held: bool
    whole: bool


class RefusalError(Exception):
    """What is wrong, the rule and the remedy, in one text."""


def read_dpkg() -> dict[str, Installed]:
    """Every package that dpkg has files of, by name without architecture."""
    text = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Version}\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return parse_dpkg(text)


def parse_dpkg(text: str) -> dict[str, Installed]:
    """Lines of abbreviated state, name and version."""
    packages: dict[str, Installed] = {}
    for line in text.splitlines():
        state, name, version = line.split("\t")
        if state[1] in "nc":  # not installed, or only its configuration is left
            continue
        packages[name] = Installed(version, state[0] == "h", state[1] == "i" and "R" not in state)
    return packages


def read_automatic(text: str) -> set[str]:
    """Packages that are only there because another needs them, from the text of apt's extended_states."""
    found: set[str] = set()
    for stanza in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line)
        if fields.get("Auto-Installed") == "1":
            found.add(fields.get("Package", ""))
    return found


class Change(NamedTuple):
    """What has to be done."""

    install: list[Wanted]
    remove: list[str]
    hold: list[str]
    manual: list[str]
    repair: bool

    def __bool__(self) -> bool:
        return bool(self.install or self.remove or self.hold or self.manual or self.repair)


def expand(patterns: list[str], there: dict[str, Installed]) -> list[str]:
    """Names as they are, and in place of each pattern the installed packages that it matches."""
    names: list[str] = []
    for one in patterns:
        plain = not set(one) & set("*?[")
        names += [one] if plain else sorted(name for name in there if fnmatch.fnmatchcase(name, one))
    return list(dict.fromkeys(names))


def compare(
    wanted: list[Wanted], absent: list[str], hold: list[str], there: dict[str, Installed], automatic: set[str]
) -> Change:
    """What has to be done so that the packages are as they are wanted."""
    install = [w for w in wanted if not w.met(there)]
    return Change(
        install=install,
        remove=[name for name in sorted(there) if any(fnmatch.fnmatchcase(name, one) for one in absent)],
        hold=[name for name in expand(hold, there) if name not in there or not there[name].held],
        # One that came along with another would go with it again.
        manual=[way.name for w in wanted for way in w.ways() if way.name in there and way.name in automatic],
        repair=not all(package.whole for package in there.values()),
    )


def say(wanted: dict[str, str], there: dict[str, Installed], names: list[str]) -> list[str]:
    """Lines of name and version, for a diff."""
    lines = []
    for name in sorted(set(names)):
        version = wanted.get(name) or (there[name].version if name in there else "")
        held = " held" if name in there and there[name].held else ""
        lines.append(f"{name} {version}{held}" if version else f"{name} absent")
    return lines


class Apt:
    """apt and dpkg, with the patience and the words that a run over many hosts needs."""

    def __init__(self, lock_timeout_s: int, install_recommends: bool) -> None:
        self.deadline = time.monotonic() + lock_timeout_s
        self.lock_timeout_s = lock_timeout_s
        self.recommends = install_recommends
        self.updated = False
        self.complaints = ""
        self.environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs a command, again for as long as another process holds a lock."""
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
        """Reads the repositories' lists anew, once."""
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
        """Versions that the repositories have, newest first."""
        done = self.run("apt-cache", "madison", *names)
        found: dict[str, list[str]] = {name: [] for name in names}
        for line in done.stdout.splitlines():
            parts = [part.strip() for part in line.split("|")]
            if len(parts) == 3 and "Sources" not in parts[2] and parts[0] in found:
                found[parts[0]].append(parts[1])
        return found

    def choose(self, install: list[Wanted]) -> list[str]:
        """The packages as apt wants them named; raises if a repository has none that suits."""
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
        chosen = []
        for w in install:
            way = next(way for way in w.ways() if any(way.suits(v) for v in have[way.name]))
            if way.version == "*":
                chosen.append(way.name)
            else:
                chosen.append(f"{way.name}={next(v for v in have[way.name] if way.suits(v))}")
        return chosen

    def refuse(self, lacking: list[Wanted], have: dict[str, list[str]]) -> None:
        """Says which packages no repository has."""
        if self.complaints:
            raise RefusalError(
                f"A package repository does not answer: {last_lines(self.complaints)} "
                f"Needed from it: {', '.join(w.name for w in lacking)}. Make it reachable from the host and "
                "run again; nothing was installed."
            )
        said = []
        for w in (way for entry in lacking for way in entry.ways()):
            others = ", ".join(have[w.name][:4])
            wants = "" if w.version == "*" else f" in version {w.version}"
            said.append(f"{w.name}{wants} ({'there is ' + others if others else 'not there at all'})")
        raise RefusalError(
            f"No repository of the host has {'; '.join(said)}. Add the repository or mirror that has "
            "it, or choose another version in the software channel, then run again; nothing was installed."
        )

    def apply(self, change: Change) -> None:
        """Makes the change; raises if apt does not."""
        if change.repair:
            self.must("dpkg", "--configure", "-a", "--force-confdef", "--force-confold")
        if change.install or change.remove:
            words = self.choose(change.install) + [f"{name}-" for name in change.remove]
            done = self.install(words)
            if done.returncode and FETCH.search(done.stderr) and not self.updated:
                self.update()  # lists from before the repository moved on
                done = self.install(self.choose(change.install) + [f"{name}-" for name in change.remove])
            if done.returncode:
                raise RefusalError(explain(done.stderr or done.stdout))
        if change.manual:
            self.must("apt-mark", "manual", *change.manual)
        if change.hold:
            self.must("apt-mark", "hold", *change.hold)

    def install(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """One transaction of apt."""
        return self.run(
            *("apt-get", "install", "-y", "-q", "--allow-downgrades", "--allow-change-held-packages"),
            *("-o", f"DPkg::Lock::Timeout={self.lock_timeout_s}", "-o", "Acquire::Retries=2"),
            *("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"),
            *("-o", f"APT::Install-Recommends={'true' if self.recommends else 'false'}"),
            *words,
        )

    def must(self, *command: str) -> None:
        """Runs a command that has to succeed."""
        done = self.run(*command)
        if done.returncode:
            raise RefusalError(explain(done.stderr or done.stdout))


def last_lines(text: str, count: int = 3) -> str:
    """The end of what a program said, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")] or lines
    return " ".join(errors[-count:])


def explain(text: str) -> str:
    """What apt said, with what it means where that is known."""
    said = last_lines(text)
    if "no space left" in text.lower() or "don't have enough free space" in text.lower():
        return f"The disk is full: {said} Make room (apt-get clean) and run again."
    if FETCH.search(text):
        return f"A package repository does not answer: {said} Make it reachable from the host and run again."
    return f"apt could not do it: {said} Run `apt-get -f install` on the host to see why, then run again."


def source_digest() -> str:
    """Which repositories the host has."""
    digest = hashlib.sha256()
    for name in sorted(["/etc/apt/sources.list", *map(str, Path("/etc/apt/sources.list.d").glob("*"))]):
        try:
            digest.update(name.encode() + b"\0" + Path(name).read_bytes())
        except OSError:
            continue
    return digest.hexdigest()


def stale() -> bool:
    """Whether the lists are old, or of other repositories."""
    try:
        stamp = json.loads(STAMP.read_text())
        return bool(stamp["sources"] != source_digest() or not 0 <= time.time() - stamp["at"] < LISTS_AGE_S)
    except (OSError, ValueError, KeyError, TypeError):
        return True


def write_stamp() -> None:
    """Remembers that the lists are those of the repositories that the host has now."""
    STAMP.parent.mkdir(parents=True, exist_ok=True)
    STAMP.write_text(json.dumps({"sources": source_digest(), "at": time.time()}))


class NoStarts:
    """Keeps the packages' scripts from starting services, for as long as this process lives."""

    def __enter__(self) -> None:
        self.ours = not POLICY.exists() or MARK in POLICY.read_text()
        if self.ours:
            # Allows again when this process is gone, also when it was killed.
            POLICY.write_text(f"#!/bin/sh\n{MARK}\nkill -0 {os.getpid()} 2>/dev/null && exit 101\nexit 0\n")
            POLICY.chmod(0o755)

    def __exit__(self, *_: object) -> None:
        if self.ours:
            POLICY.unlink(missing_ok=True)


def work(module: AnsibleModule) -> dict[str, Any]:
    """Compares, changes, compares again; the result for Ansible."""
    wanted = [Wanted.of(text) for text in module.params["names"]]
    absent, hold = module.params["absent"], module.params["hold"]

    def now() -> tuple[dict[str, Installed], Change]:
        there = read_dpkg()
        try:
            automatic = read_automatic(Path("/var/lib/apt/extended_states").read_text())
        except OSError:
            automatic = set()
        return there, compare(wanted, absent, hold, there, automatic)

    before, change = now()
    names = [*(w.name for w in change.install), *change.remove, *change.hold]
    after = before
    if change and not module.check_mode:
        apt = Apt(module.params["lock_timeout_s"], module.params["install_recommends"])
        with NoStarts():
            apt.apply(change)
        after, left = now()
        if left.hold:  # a pattern that matches what has just come
            apt.must("apt-mark", "hold", *left.hold)
            after, left = now()
        if left:
            raise RefusalError(
                f"apt said that it was done, and it is not: {left}. Run `apt-get -f install` on the host."
            )
    lines_before = say({}, before, names)
    if module.check_mode:
        will = {w.name: w.version.replace("*", "") or "newest" for w in change.install}
        planned = {n: p for n, p in before.items() if n not in change.remove}
        planned |= {n: planned[n]._replace(held=True) for n in change.hold if n in planned}
        lines_after = say(will, planned, names)
    else:
        lines_after = say({}, after, names)
    extra = [f"{name} kept for itself" for name in change.manual]
    extra += ["unfinished packages configured"] if change.repair else []
    return {
        "changed": bool(change),
        "before": lines_before,
        "after": lines_after + extra,
        "diff": {
            "before_header": "packages",
            "after_header": "packages",
            "before": "".join(f"{line}\n" for line in lines_before),
            "after": "".join(f"{line}\n" for line in lines_after + extra),
        },
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "default": []},
            "absent": {"type": "list", "elements": "str", "default": []},
            "hold": {"type": "list", "elements": "str", "default": []},
            "install_recommends": {"type": "bool", "default": False},
            "lock_timeout_s": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    try:
        result = work(module)
    except RefusalError as failure:
        module.fail_json(msg=str(failure))
    except (OSError, subprocess.CalledProcessError) as error:
        module.fail_json(msg=f"Packages could not be read or written: {error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
