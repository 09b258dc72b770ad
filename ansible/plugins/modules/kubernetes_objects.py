#!/usr/bin/python
"""Kubernetes objects by server-side apply, with removal of obsolete ones."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_objects
short_description: Applies objects to a Kubernetes cluster with server-side apply
description:
  - Runs a server-side dry run, and applies only objects that
    differ. An object that the server refuses stops the task before any change.
  - Labels each object with C(gpufleet.io/part-of), and removes labelled objects of the kinds in O(prune)
    that are no longer listed. Other objects are not changed.
  - In check mode a missing cluster, kind or namespace counts
    as a difference.
  - Runs kubectl on the host; objects reach it over standard input.
options:
  objects:
    description: Objects with C(apiVersion), C(kind) and C(metadata); namespaces and definitions first.
    type: list
    elements: dict
    required: true
  part_of:
    description: Value of the label C(gpufleet.io/part-of).
    type: str
    required: true
  only_existing:
    description: Whether to skip objects that do not exist, for example labels of nodes that have
      not joined. Such objects get no label and are never removed.
    type: bool
    default: false
  prune:
    description: Resources whose labelled objects are removed when no longer listed, in kubectl syntax
      with their group, for example C(clusterqueues.kueue.x-k8s.io).
    type: list
    elements: str
    default: []
  field_manager:
    description: Field manager.
    type: str
    default: gpufleet
  kubeconfig:
    description: Kubeconfig of an administrator, on the host.
    type: path
    default: /etc/kubernetes/admin.conf
  wait_s:
    description: Seconds to retry while new webhooks or definitions are not ready.
    type: int
    default: 120
  timeout_s:
    description: Time limit in seconds of one command.
    type: int
    default: 120
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Apply quotas of teams
  gpufleet.rack.kubernetes_objects:
    part_of: quotas
    objects:
      - apiVersion: v1
        kind: Namespace
        metadata: {name: research}
    prune: [namespaces]
"""

RETURN = r"""
changed_objects:
  description: C(Kind namespace/name) of objects that were created or changed, also in check mode.
  type: list
  returned: success
removed_objects:
  description: Removed objects, also in check mode.
  type: list
  returned: success
skipped_objects:
  description: Missing objects, with O(only_existing).
  type: list
  returned: success
"""

import copy
import json
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.cluster import Answer, Program, name_of
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

LABEL = "gpufleet.io/part-of"
# Fields written by the server.
SERVERS_OWN = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink")
Object = dict[str, Any]
Key = tuple[str, str, str, str]


def key_of(item: Object) -> Key:
    """Identity of an object, without the version of its API group."""
    metadata = item["metadata"]
    group = item["apiVersion"].rpartition("/")[0]
    return (group, item["kind"], metadata.get("namespace", ""), metadata["name"])


def ready(objects: list[Object], part_of: str, *, label: bool) -> list[Object]:
    """The objects with the label; refuses invalid and duplicate ones."""
    found: dict[Key, Object] = {}
    for given in objects:
        item = copy.deepcopy(given)
        metadata = item.get("metadata")
        if not (item.get("apiVersion") and item.get("kind") and isinstance(metadata, dict)):
            raise RefusalError(f"An object needs apiVersion, kind and metadata: {str(given)[:200]}")
        if not metadata.get("name"):
            raise RefusalError(f"A {item['kind']} without metadata.name, which identifies objects.")
        if label:
            metadata["labels"] = {**(metadata.get("labels") or {}), LABEL: part_of}
        if key_of(item) in found:
            raise RefusalError(f"{name_of(item)} is there twice; leave one of them out.")
        found[key_of(item)] = item
    return list(found.values())


def as_text(objects: list[Object]) -> str:
    """One document for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def items_of(text: str) -> list[Object]:
    """Objects of a response: a list, one object, or nothing."""
    if not text.strip():
        return []
    answer = json.loads(text)
    return list(answer["items"]) if answer.get("kind", "").endswith("List") else [answer]


def unknown(answer: Answer) -> bool:
    """Whether the cluster lacks the kind or namespace: then the object does not exist either."""
    lacks = ("no matches for kind", "doesn't have a resource type", "could not find the requested resource")
    return any(text in answer.stderr for text in lacks) or (
        'namespaces "' in answer.stderr and "not found" in answer.stderr
    )


def read(kubectl: Program, objects: list[Object], check: bool) -> dict[Key, Object]:
    """The existing ones of the objects."""
    words = ("get", "--ignore-not-found", "-o", "json", "--show-managed-fields", "-f", "-")
    if not objects:
        return {}
    answer = kubectl(*words, text=as_text(objects))
    if "unknown flag" in answer.stderr:  # before 1.21 they are always shown
        words = tuple(word for word in words if word != "--show-managed-fields")
        answer = kubectl(*words, text=as_text(objects))
    if answer.rc == 0:
        return {key_of(item): item for item in items_of(answer.stdout)}
    if check and answer.silent():
        return {}
    if not unknown(answer):
        raise RefusalError(
            f"The cluster could not be read: {answer.error()}. See `kubectl get --raw /readyz`."
        )
    if len(objects) == 1:
        return {}
    found: dict[Key, Object] = {}
    for item in objects:
        found |= read(kubectl, [item], check)
    return found


def dry_run(kubectl: Program, objects: list[Object], manager: str, check: bool) -> dict[Key, Object]:
    """The objects after an apply, from a dry run; without those that the server cannot judge yet."""
    if not objects:
        return {}
    flags = ("--dry-run=server", "-o", "json", "--show-managed-fields")
    answer = kubectl(*apply_words(manager), *flags, text=as_text(objects))
    if "unknown flag" in answer.stderr:
        answer = kubectl(*apply_words(manager), *flags[:-1], text=as_text(objects))
    if answer.rc == 0:
        return {key_of(item): item for item in items_of(answer.stdout)}
    if len(objects) > 1:
        found: dict[Key, Object] = {}
        for item in objects:
            found |= dry_run(kubectl, [item], manager, check)
        return found
    if unknown(answer) or answer.passing() or (check and answer.silent()):
        return {}
    raise RefusalError(
        f"The API server refuses {name_of(objects[0])}: {answer.error()}. Nothing was changed."
    )


def apply_words(manager: str) -> tuple[str, ...]:
    """Force conflicts: the listed fields are ours."""
    return ("apply", "--server-side", "--force-conflicts", f"--field-manager={manager}", "-f", "-")


def essence(item: Object, manager: str) -> Object:
    """An object without fields that the server writes, with its managed field set.

    The field set matters: a removed field is deleted only if it is known as ours.
    """
    bare = copy.deepcopy(item)
    bare.pop("status", None)
    managed = bare["metadata"].get("managedFields") or []
    for name in SERVERS_OWN:
        bare["metadata"].pop(name, None)
    ours = [
        entry.get("fieldsV1")
        for entry in managed
        if entry.get("manager") == manager and entry.get("operation") == "Apply"
    ]
    return {"object": bare, "ours": ours}


def apply(kubectl: Program, objects: list[Object], manager: str, wait_s: int) -> None:
    """Apply; retry while the cluster is not ready for it."""
    deadline = time.monotonic() + wait_s
    while True:
        answer = kubectl(*apply_words(manager), text=as_text(objects))
        if answer.rc == 0:
            return
        if not answer.passing() or time.monotonic() > deadline:
            raise RefusalError(
                f"The API server refuses an object: {answer.error()}. Earlier objects stay applied; fix "
                "the cause and run again."
            )
        time.sleep(2)


def left_over(
    kubectl: Program, kinds: list[str], part_of: str, wanted: set[Key], check: bool
) -> list[Object]:
    """Labelled objects that are no longer listed."""
    found = []
    for kind in kinds:
        answer = kubectl("get", kind, "--all-namespaces", "-l", f"{LABEL}={part_of}", "-o", "json")
        if answer.rc and (unknown(answer) or (check and answer.silent())):
            continue
        if answer.rc:
            raise RefusalError(f"{kind} could not be listed: {answer.error()}")
        found += [item for item in items_of(answer.stdout) if key_of(item) not in wanted]
    return found


def remove(kubectl: Program, item: Object) -> None:
    """Delete one object; a finalizer may delay it."""
    answer = kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", text=json.dumps(item))
    if answer.rc:
        raise RefusalError(f"{name_of(item)} could not be removed: {answer.error()}")


def shown(item: Object | None) -> str:
    """The text of an object for a diff, without data of a Secret."""
    if item is None:
        return ""
    text = essence(item, "")["object"]
    if text["kind"] == "Secret":
        text = {name: value for name, value in text.items() if name not in ("data", "stringData")}
        text["metadata"].pop("annotations", None)
    return json.dumps(text, indent=1, sort_keys=True) + "\n"


def ensure(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare, apply, remove; the result for Ansible."""
    kubectl = Program("kubectl", params["kubeconfig"], params["timeout_s"])
    manager, only_existing = params["field_manager"], params["only_existing"]
    objects = ready(params["objects"], params["part_of"], label=not only_existing)
    there = read(kubectl, objects, check)
    skipped = [item for item in objects if only_existing and key_of(item) not in there]
    objects = [item for item in objects if item not in skipped]
    would = dry_run(kubectl, objects, manager, check)
    changed = [
        item
        for item in objects
        if key_of(item) not in there
        or key_of(item) not in would
        or essence(there[key_of(item)], manager) != essence(would[key_of(item)], manager)
    ]
    wanted = {key_of(item) for item in objects}
    prune = [] if only_existing else params["prune"]
    gone = left_over(kubectl, prune, params["part_of"], wanted, check)
    if not check:
        if changed:
            apply(kubectl, changed, manager, params["wait_s"])
        for item in gone:
            remove(kubectl, item)
    diffs = [
        difference(name_of(item), shown(there.get(key_of(item))), shown(would.get(key_of(item), item)))
        for item in changed
    ]
    diffs += [difference(name_of(item), shown(item), "") for item in gone]
    return {
        "changed": bool(changed or gone),
        "changed_objects": [name_of(item) for item in changed],
        "removed_objects": [name_of(item) for item in gone],
        "skipped_objects": [name_of(item) for item in skipped],
        "diff": diffs,
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "objects": {"type": "list", "elements": "dict", "required": True},
            "part_of": {"type": "str", "required": True},
            "only_existing": {"type": "bool", "default": False},
            "prune": {"type": "list", "elements": "str", "default": []},
            "field_manager": {"type": "str", "default": "gpufleet"},
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "wait_s": {"type": "int", "default": 120},
            "timeout_s": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: ensure(module.params, module.check_mode))


if __name__ == "__main__":
    main()
