#!/usr/bin/python
"""Helm releases in given versions with given values, changed only where they differ."""

from __future__ import annotations

DOCUMENTATION = r"""
module: helm_releases
short_description: Helm releases in given versions with given values
description:
  - Reads what is installed (C(helm list), C(helm get values)), and installs or upgrades releases of which
    chart, version, values or state differ.
  - A release that a killed run left pending is set free first, by a rollback to its last good revision or,
    if it never had one, by removing it.
  - In check mode a cluster that does not answer yet, and helm that is not installed yet, count as a
    difference.
  - Values reach helm over standard input.
options:
  releases:
    description: What has to be there, in order.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: The release's name.
        type: str
        required: true
      namespace:
        description: Its namespace, made if it is not there.
        type: str
        required: true
      chart:
        description: The chart's name in O(releases[].repository), an C(oci://) reference, the URL of an
          archive, or a folder.
        type: str
        default: ""
      repository:
        description: URL of a chart repository; empty for all others.
        type: str
        default: ""
      version:
        description: The chart's exact version, with the C(v) in front if the chart has it.
        type: str
        default: ""
      values:
        description: Values in place of the chart's own.
        type: dict
        default: {}
      wait:
        description: Whether to wait until its workloads are ready.
        type: bool
        default: true
      absent:
        description: Whether it must not be there.
        type: bool
        default: false
  kubeconfig:
    description: An administrator's kubeconfig on the host.
    type: path
    default: /etc/kubernetes/admin.conf
  timeout_s:
    description: Seconds that one release may take.
    type: int
    default: 600
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Queue jobs
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
  description: C(namespace/name) of releases that were installed, upgraded or removed, or would be.
  type: list
  returned: success
"""

import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.cluster import Answer, Program
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

Release = dict[str, Any]


def place(release: Release) -> str:
    """`namespace/name`, for people and as a key."""
    return f"{release['namespace']}/{release['name']}"


def check_wish(releases: list[Release]) -> None:
    """Refuses a wish that helm would read in a way of its own: the newest version, two of one name."""
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
    """The answer; raises with what helm said if it failed."""
    if answer.rc:
        raise RefusalError(
            f"{doing} failed: {answer.said()}. Mend the cause and run again; what is done stays done."
        )
    return answer


def read(helm: Program, check: bool) -> dict[str, Release] | None:
    """All releases that there are, by place; None where a check run meets no cluster or no helm."""
    answer = helm("list", "--all-namespaces", "--max", "0", "-o", "json", *states(helm))
    if check and (answer.silent() or answer.rc == 127):
        return None
    must(answer, "Reading the releases")
    return {place(item): item for item in json.loads(answer.stdout or "[]") or []}


def states(helm: Program) -> tuple[str, ...]:
    """Helm 3 leaves out what is pending unless it is told; helm 4 shows all and lacks the flag."""
    return () if "--all " not in helm("list", "--help").stdout else ("--all",)


def values_of(helm: Program, item: Release) -> dict[str, Any]:
    """Values that somebody gave to a release."""
    answer = must(
        helm("get", "values", item["name"], "--namespace", item["namespace"], "-o", "json"),
        f"Reading the values of {place(item)}",
    )
    return dict(json.loads(answer.stdout or "null") or {})


def chart_of(release: Release) -> str:
    """What `helm list` says of a chart that is installed as wished: the chart's own name and its version."""
    last = release["chart"].rstrip("/").rpartition("/")[2]
    if last.endswith(".tgz"):
        return str(last.removesuffix(".tgz"))
    return f"{last}-{release['version']}"


def described(chart: str, status: str, values: dict[str, Any]) -> str:
    """A release's text for a diff."""
    return f"{chart} {status}\n{json.dumps(values, indent=1, sort_keys=True)}\n"


def compare(helm: Program, release: Release, found: Release | None) -> tuple[str, str] | None:
    """How the release is and how it should be, or None if it is so already."""
    if release["absent"]:
        return None if found is None else (described(found["chart"], found["status"], {}), "")
    after = described(chart_of(release), "deployed", release["values"])
    if found is None:
        return "", after
    before = described(found["chart"], found["status"], values_of(helm, found))
    return None if before == after else (before, after)


def free(helm: Program, found: Release) -> None:
    """Ends what a killed helm left pending; helm refuses every other operation until then."""
    where = ("--namespace", found["namespace"])
    history = must(helm("history", found["name"], *where, "-o", "json"), f"Reading {place(found)}")
    good = [item for item in json.loads(history.stdout) if item["status"] in ("deployed", "superseded")]
    if good:
        words = ("rollback", found["name"], str(good[-1]["revision"]), *where)
    else:
        words = ("uninstall", found["name"], *where, "--no-hooks")
    must(helm(*words), f"Setting {place(found)} free, which is {found['status']},")


def change(helm: Program, release: Release, found: Release | None, timeout_s: int) -> None:
    """Makes the release as it is wished."""
    where = ("--namespace", release["namespace"])
    if release["absent"]:
        must(helm("uninstall", release["name"], *where), f"Removing {place(release)}")
        return
    if found is not None and (found["status"].startswith("pending") or found["status"] == "uninstalling"):
        free(helm, found)
    words = ["upgrade", "--install", release["name"], release["chart"], *where, "--create-namespace"]
    words += ["--version", release["version"], "--reset-values", "--values", "-"]
    words += ["--timeout", f"{timeout_s}s", "--history-max", "5"]
    words += ["--repo", release["repository"]] if release["repository"] else []
    words += ["--wait"] if release["wait"] else []
    must(helm(*words, text=json.dumps(release["values"])), f"Installing {place(release)}")


def bring(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compares and changes; the result for Ansible."""
    releases, timeout_s = params["releases"], params["timeout_s"]
    check_wish(releases)
    # helm ends by itself first, and says why.
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
    finish(module, lambda: bring(module.params, module.check_mode))


if __name__ == "__main__":
    main()
