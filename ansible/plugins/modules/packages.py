#!/usr/bin/python
"""Debian packages with given versions, with the same result in check mode."""

from __future__ import annotations

DOCUMENTATION = r"""
module: packages
short_description: Installs Debian packages with given versions
description:
  - Installs, upgrades, downgrades, removes and holds packages in one transaction.
  - Reads the state from dpkg and not from apt's lists, so that check mode needs no repository.
  - Package scripts start no services; M(gpufleet.rack.units) starts them.
  - Refuses a transaction that would remove other packages than C(absent). Check mode shows what apt would
    remove and downgrade, where the package lists of the host have the packages.
  - Completes an interrupted run of dpkg, and waits for apt's lock.
options:
  names:
    description:
      - Packages, as C(name) or C(name=version); the version may have C(*).
      - Of alternatives, C(one|other), the first available one is installed, unless one is installed already.
    type: list
    elements: str
    default: []
  absent:
    description: Packages that must not be installed; C(*), C(?) and C([]) match as in a shell.
    type: list
    elements: str
    default: []
  hold:
    description: Packages to hold; patterns match installed packages.
    type: list
    elements: str
    default: []
  install_recommends:
    description: Whether recommended packages are installed too.
    type: bool
    default: false
  guard:
    description:
      - What changes, as a clause, if the packages are used by running work. The node is drained before a
        transaction, and the module fails while work runs (see M(gpufleet.rack.node_guard)).
    type: str
    default: ""
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
  description: Packages before the changes, one line each.
  type: list
  returned: always
after:
  description: The same packages after the changes, also in check mode.
  type: list
  returned: always
moved:
  description: Whether packages were installed, upgraded, removed or configured, and not only held.
  type: bool
  returned: always
"""

import fnmatch
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.apt import Apt, NoStarts, PackageRequest
from ansible_collections.gpufleet.rack.plugins.module_utils.node_guard import GuardResult, take_out_of_service
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish


class InstalledPackage(NamedTuple):
    """A package as in dpkg."""

    version: str
    held: bool
    whole: bool


def read_dpkg() -> dict[str, InstalledPackage]:
    """Every package with files, by name without architecture."""
    text = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Version}\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return parse_dpkg(text)


def parse_dpkg(text: str) -> dict[str, InstalledPackage]:
    """Lines of abbreviated state, name and version."""
    packages: dict[str, InstalledPackage] = {}
    for line in text.splitlines():
        state, name, version = line.split("\t")
        if state[1] in "nc":  # not installed, or only its configuration is left
            continue
        packages[name] = InstalledPackage(version, state[0] == "h", state[1] == "i" and "R" not in state)
    return packages


def read_automatic(text: str) -> set[str]:
    """Automatically installed packages, from apt's extended_states."""
    found: set[str] = set()
    for stanza in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line)
        if fields.get("Auto-Installed") == "1":
            found.add(fields.get("Package", ""))
    return found


class Change(NamedTuple):
    """Planned changes."""

    install: list[PackageRequest]
    remove: list[str]
    hold: list[str]
    manual: list[str]
    repair: bool

    def __bool__(self) -> bool:
        return bool(self.install or self.remove or self.hold or self.manual or self.repair)


def expand(patterns: list[str], there: dict[str, InstalledPackage]) -> list[str]:
    """Names, and for each pattern the installed packages that match."""
    names: list[str] = []
    for one in patterns:
        plain = not set(one) & set("*?[")
        names += [one] if plain else sorted(name for name in there if fnmatch.fnmatchcase(name, one))
    return list(dict.fromkeys(names))


def met(wanted: PackageRequest, there: dict[str, InstalledPackage]) -> bool:
    """Whether one of the alternatives is installed."""
    return any(way.name in there and way.suits(there[way.name].version) for way in wanted.ways())


def compare(
    wanted: list[PackageRequest],
    absent: list[str],
    hold: list[str],
    there: dict[str, InstalledPackage],
    automatic: set[str],
) -> Change:
    """Changes needed to reach the wanted state."""
    install = [w for w in wanted if not met(w, there)]
    return Change(
        install=install,
        remove=[name for name in sorted(there) if any(fnmatch.fnmatchcase(name, one) for one in absent)],
        hold=[name for name in expand(hold, there) if name not in there or not there[name].held],
        # An automatically installed package would be removed with its parent.
        manual=[way.name for w in wanted for way in w.ways() if way.name in there and way.name in automatic],
        repair=not all(package.whole for package in there.values()),
    )


def describe_packages(
    wanted: dict[str, str], there: dict[str, InstalledPackage], names: list[str]
) -> list[str]:
    """Lines of name and version, for a diff."""
    lines = []
    for name in sorted(set(names)):
        version = wanted.get(name) or (there[name].version if name in there else "")
        held = " held" if name in there and there[name].held else ""
        lines.append(f"{name} {version}{held}" if version else f"{name} absent")
    return lines


def apply(apt: Apt, change: Change, held: list[str]) -> None:
    """Apply the changes; raises if apt fails. `held` are packages that this task holds."""
    if change.repair:
        apt.must("dpkg", "--configure", "-a", "--force-confdef", "--force-confold")
    if change.install and held:
        # apt upgrades listed packages despite a hold, but not their dependencies of the same version: unhold
        # gives up then. They are held again by the comparison that follows, also in the next run.
        apt.must("apt-mark", "unhold", *held)
    if change.install or change.remove:
        try:
            apt.change(change.install, change.remove)
        except RefusalError:
            if change.install and held:
                apt.must("apt-mark", "hold", *held)
            raise
    if change.manual:
        apt.must("apt-mark", "manual", *change.manual)
    if change.hold:
        apt.must("apt-mark", "hold", *change.hold)


def ensure(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare, change, compare again; the result for Ansible."""
    wanted = [PackageRequest.of(text) for text in params["names"]]
    absent, hold = params["absent"], params["hold"]

    def now() -> tuple[dict[str, InstalledPackage], Change]:
        there = read_dpkg()
        try:
            automatic = read_automatic(Path("/var/lib/apt/extended_states").read_text())
        except OSError:
            automatic = set()
        return there, compare(wanted, absent, hold, there, automatic)

    before, change = now()
    names = [*(w.name for w in change.install), *change.remove, *change.hold]
    after = before
    apt = Apt(params["lock_timeout_s"], params["install_recommends"])
    moves = bool(change.install or change.remove)
    foreseen = apt.foresee(change.install, change.remove) if moves and check else None
    taken = take_out_of_service(params["guard"], check=check) if moves and params["guard"] else GuardResult()
    if change and not check:
        with NoStarts():
            apply(
                apt, change, [name for name in expand(hold, before) if name in before and before[name].held]
            )
        after, left = now()
        if left.hold:  # a pattern may match packages that were just installed
            apt.must("apt-mark", "hold", *left.hold)
            after, left = now()
        if left:
            raise RefusalError(
                f"apt reported success, but this is still to do: {left}. "
                "Run `apt-get -f install` on the host."
            )
    lines_before = describe_packages({}, before, names)
    if check:
        will = {w.name: w.version.replace("*", "") or "newest" for w in change.install}
        planned = {n: p for n, p in before.items() if n not in change.remove}
        planned |= {n: planned[n]._replace(held=True) for n in change.hold if n in planned}
        lines_after = describe_packages(will, planned, names)
    else:
        lines_after = describe_packages({}, after, names)
    extra = [f"{name} kept for itself" for name in change.manual]
    extra += ["unfinished packages configured"] if change.repair else []
    extra += foreseen.lines(change.remove) if foreseen else []
    texts = ["".join(f"{line}\n" for line in lines) for lines in (lines_before, lines_after + extra)]
    return {
        "changed": bool(change),
        "moved": moves or change.repair,
        "before": lines_before,
        "after": lines_after + extra,
        "diff": [*taken.diff, difference("packages", *texts)],
    }


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Like `ensure`, with messages for unexpected errors."""
    try:
        return ensure(params, check)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RefusalError(f"Packages could not be read or written: {error}") from error


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "default": []},
            "absent": {"type": "list", "elements": "str", "default": []},
            "hold": {"type": "list", "elements": "str", "default": []},
            "install_recommends": {"type": "bool", "default": False},
            "guard": {"type": "str", "default": ""},
            "lock_timeout_s": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
