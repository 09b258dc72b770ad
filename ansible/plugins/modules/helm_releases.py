#!/usr/bin/python
"""Helm releases with given versions and values, changed only if they differ."""

from __future__ import annotations

DOCUMENTATION = r"""
module: helm_releases
short_description: Manages Helm releases with given versions and values
description:
  - Reads installed releases (C(helm list), C(helm get values)), and installs or upgrades those whose
    chart, version, values or state differ.
  - Recovers a release that a killed run left pending, by a rollback to its last good revision or,
    without one, by uninstalling it.
  - In check mode an unreachable cluster, and missing helm, count as a
    difference.
  - Values are passed to helm over standard input.
options:
  releases:
    description: Releases, in order.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the release.
        type: str
        required: true
      namespace:
        description: Namespace, created if it does not exist.
        type: str
        required: true
      chart:
        description: Name of the chart in O(releases[].repository), an C(oci://) reference, the URL of an
          archive, or a folder.
        type: str
        default: ""
      repository:
        description: URL of the chart repository; empty for other sources.
        type: str
        default: ""
      version:
        description: Exact version of the chart, with a leading C(v) if the chart has it.
        type: str
        default: ""
      values:
        description: Values that override those of the chart.
        type: dict
        default: {}
      wait:
        description: Whether to wait until its workloads are ready.
        type: bool
        default: true
      absent:
        description: Whether to uninstall it.
        type: bool
        default: false
  kubeconfig:
    description: Kubeconfig of an administrator, on the host.
    type: path
    default: /etc/kubernetes/admin.conf
  timeout_s:
    description: Time limit in seconds of one release.
    type: int
    default: 600
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Install Kueue
  gpufleet.rack.helm_releases:
    releases:
      - name: kueue
        namespace: kueue-system
        chart: oci://registry.k8s.io/kueue/charts/kueue
        version: 0.19.2
        values: {enableCertManager: false}
"""

RETURN = r"""
changed_releases:
  description: C(namespace/name) of releases that were installed, upgraded or removed, also in check mode.
  type: list
  returned: success
"""

import json
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.cluster import PAUSE_S, TRIES, Answer, Program
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

Release = dict[str, Any]


def place(release: Release) -> str:
    """`namespace/name`, for messages and as a key."""
    return f"{release['namespace']}/{release['name']}"


def check_wish(releases: list[Release]) -> None:
    """Refuse input that helm would interpret differently: no version, or duplicate names."""
    seen = set()
    for item in releases:
        if place(item) in seen:
            raise RefusalError(f"Release {place(item)} is there twice; leave one of them out.")
        seen.add(place(item))
        if not item["absent"] and not (item["chart"] and item["version"]):
            raise RefusalError(
                f"Release {place(item)} has no chart or no version; without one helm takes the newest. "
                "Name both."
            )


def must(answer: Answer, doing: str) -> Answer:
    """The result; raises with the output of helm on failure."""
    if answer.rc:
        raise RefusalError(
            f"{doing} failed: {answer.error()}. Fix the cause and run again; completed changes stay."
        )
    return answer


def read(helm: Program, check: bool) -> dict[str, Release] | None:
    """All releases by name; None if check mode finds no cluster or no helm."""
    answer = helm("list", "--all-namespaces", "--max", "0", "-o", "json", *states(helm))
    if check and (answer.silent() or answer.rc == 127):
        return None
    must(answer, "Reading the releases")
    return {place(item): item for item in json.loads(answer.stdout or "[]") or []}


def states(helm: Program) -> tuple[str, ...]:
    """Helm 3 lists pending releases only with a flag; helm 4 lists all and lacks the flag."""
    return () if "--all " not in helm("list", "--help").stdout else ("--all",)


def values_of(helm: Program, item: Release) -> dict[str, Any]:
    """User-supplied values of a release."""
    answer = must(
        helm("get", "values", item["name"], "--namespace", item["namespace"], "-o", "json"),
        f"Reading the values of {place(item)}",
    )
    return dict(json.loads(answer.stdout or "null") or {})


def chart_of(release: Release) -> str:
    """Name and version of the chart, as in `helm list`."""
    last = release["chart"].rstrip("/").rpartition("/")[2]
    if last.endswith(".tgz"):
        return str(last.removesuffix(".tgz"))
    return f"{last}-{release['version']}"


def described(chart: str, status: str, values: dict[str, Any]) -> str:
    """A release's text for a diff."""
    return f"{chart} {status}\n{json.dumps(values, indent=1, sort_keys=True)}\n"


def compare(helm: Program, release: Release, found: Release | None) -> tuple[str, str] | None:
    """The release now and as wanted, or None if they are equal."""
    if release["absent"]:
        return None if found is None else (described(found["chart"], found["status"], {}), "")
    after = described(chart_of(release), "deployed", release["values"])
    if found is None:
        return "", after
    before = described(found["chart"], found["status"], values_of(helm, found))
    return None if before == after else (before, after)


def free(helm: Program, found: Release) -> None:
    """Recover a pending release; helm refuses all other operations until then."""
    where = ("--namespace", found["namespace"])
    history = must(helm("history", found["name"], *where, "-o", "json"), f"Reading {place(found)}")
    good = [item for item in json.loads(history.stdout) if item["status"] in ("deployed", "superseded")]
    if good:
        words = ("rollback", found["name"], str(good[-1]["revision"]), *where)
    else:
        words = ("uninstall", found["name"], *where, "--no-hooks")
    must(helm.once(*words), f"Setting {place(found)} free, which is {found['status']},")


def change(helm: Program, release: Release, found: Release | None, timeout_s: int) -> None:
    """Install, upgrade or remove the release; after a lost connection again, from the state that it is in."""
    doing = "Removing" if release["absent"] else "Installing"
    for left in reversed(range(TRIES)):
        answer = attempt(helm, release, found, timeout_s)
        if not (left and answer.lost()):
            break
        time.sleep(PAUSE_S)
        found = (read(helm, check=False) or {}).get(place(release))
        if release["absent"] and found is None:
            return
    must(answer, f"{doing} {place(release)}")


def attempt(helm: Program, release: Release, found: Release | None, timeout_s: int) -> Answer:
    """Change the release once."""
    where = ("--namespace", release["namespace"])
    if release["absent"]:
        return helm.once("uninstall", release["name"], *where)
    if found is not None and (found["status"].startswith("pending") or found["status"] == "uninstalling"):
        free(helm, found)
    words = ["upgrade", "--install", release["name"], release["chart"], *where, "--create-namespace"]
    words += ["--version", release["version"], "--reset-values", "--values", "-"]
    words += ["--timeout", f"{timeout_s}s", "--history-max", "5"]
    words += ["--repo", release["repository"]] if release["repository"] else []
    words += ["--wait"] if release["wait"] else []
    return helm.once(*words, text=json.dumps(release["values"]))


def ensure(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare and change; the result for Ansible."""
    releases, timeout_s = params["releases"], params["timeout_s"]
    check_wish(releases)
    # helm times out first, and reports the reason.
    helm = Program("helm", params["kubeconfig"], timeout_s + 60)
    there = read(helm, check)
    changed, diffs = [], []
    for release in releases:
        found = (there or {}).get(place(release))
        differs = compare(helm, release, found)
        if differs is None:
            continue
        if not check:
            change(helm, release, found, timeout_s)
        changed.append(place(release))
        diffs.append(difference(f"release {place(release)}", *differs))
    return {"changed": bool(changed), "changed_releases": changed, "diff": diffs}


def main() -> None:
    """Entry point."""
    release = {
        "name": {"type": "str", "required": True},
        "namespace": {"type": "str", "required": True},
        "chart": {"type": "str", "default": ""},
        "repository": {"type": "str", "default": ""},
        "version": {"type": "str", "default": ""},
        "values": {"type": "dict", "default": {}},
        "wait": {"type": "bool", "default": True},
        "absent": {"type": "bool", "default": False},
    }
    module = AnsibleModule(
        argument_spec={
            "releases": {"type": "list", "elements": "dict", "required": True, "options": release},
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "timeout_s": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: ensure(module.params, module.check_mode))


if __name__ == "__main__":
    main()
