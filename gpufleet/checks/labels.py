"""Kubernetes labels and taints of node groups: syntax, length, reserved prefixes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, LocatedGroup, SpecPath, check
from gpufleet.plan.marks import LABEL_PREFIX

LONGEST = 63
"""Maximum characters of a label key, including its prefix, and of a value (Kubernetes API conventions; EKS
API Reference, Taint and labels)."""

RESERVED = (
    *("kubernetes.io", "k8s.io", "eks.amazonaws.com", "karpenter.sh", "karpenter.k8s.aws"),
    LABEL_PREFIX.rstrip("/"),
)

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def key_problem(key: str) -> str | None:
    """Return the error in the key of a label or taint, None if it is valid."""
    prefix, slash, name = key.rpartition("/")
    if len(key) > LONGEST:
        return f"'{key}' has {len(key)} characters (EKS allows {LONGEST})"
    if not _NAME.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
        return f"'{key}' is not a valid Kubernetes key"
    if any(prefix == domain or prefix.endswith(f".{domain}") for domain in RESERVED):
        return f"'{key}' has a prefix that is reserved for Kubernetes, EKS, Karpenter or gpufleet"
    return None


def value_problem(value: str, least: int) -> str | None:
    """Return the error in a value of at least `least` characters, None if it is valid."""
    if len(value) > LONGEST:
        return f"the value has {len(value)} characters (at most {LONGEST})"
    if len(value) < least:
        return "the value is empty, which EKS rejects"
    if value and not _NAME.fullmatch(value):
        return f"'{value}' is not a valid Kubernetes value"
    return None


_KEY_REMEDY = "use letters, digits, '-', '_' and '.', with a prefix of your own such as 'example.com/'"
_VALUE_REMEDY = "use letters, digits, '-', '_' and '.', with a letter or digit at both ends"


@check("label-legal")
def labels_legal(fleet: Fleet) -> Iterator[FieldFinding]:
    """Kubernetes rejects nodes, and EKS rejects node groups, with invalid labels."""
    for each in fleet.groups():
        for key, value in each.group.labels.items():
            path = (*each.path, "labels", key)
            if (wrong := key_problem(key)) is not None:
                yield FieldFinding(path, f"label {wrong}", _KEY_REMEDY, value=key)
            elif (wrong := value_problem(value, 1)) is not None:
                yield FieldFinding(path, f"label '{key}': {wrong}", _VALUE_REMEDY)


@check("taint-legal")
def taints_legal(fleet: Fleet) -> Iterator[FieldFinding]:
    """Taints have the syntax of labels. Each combination of key and effect is unique (EKS API Reference,
    Taint)."""
    for each in fleet.groups():
        seen: set[tuple[str, str]] = set()
        for index, taint in enumerate(each.group.taints):
            path: SpecPath = (*each.path, "taints", index)
            if (wrong := key_problem(taint.key)) is not None:
                yield FieldFinding((*path, "key"), f"taint {wrong}", _KEY_REMEDY)
            elif (wrong := value_problem(taint.value, 0)) is not None:
                yield FieldFinding((*path, "value"), f"taint '{taint.key}': {wrong}", _VALUE_REMEDY)
            if (taint.key, taint.effect) in seen:
                yield FieldFinding(
                    path,
                    f"taint '{taint.key}' with effect {taint.effect} is listed twice",
                    "keep one",
                    value=taint.key,
                )
            seen.add((taint.key, taint.effect))


@check("labels-without-kubernetes", "scheduler")
def labels_without_kubernetes(fleet: Fleet) -> Iterator[FieldFinding]:
    """Labels and taints work only on Kubernetes."""
    for each in fleet.groups():
        if each.site.scheduler != "kubernetes":
            yield from _unused(each)


@check("one-scheduler", "scheduler")
def one_scheduler(fleet: Fleet) -> Iterator[FieldFinding]:
    """A cloud site has one scheduler. On a Slurm site no Kubernetes cluster is created, so `kubernetes`
    settings, teams and quotas have no effect."""
    for path, site in fleet.cloud():
        if site.scheduler != "kubernetes" and site.kubernetes is not None:
            yield FieldFinding(
                (*path, "kubernetes"),
                f"site {site.site!r} has `kubernetes` settings but its scheduler is {site.scheduler}",
                "remove `kubernetes`, or write 'scheduler: kubernetes'",
                value=site.scheduler,
            )


def _unused(each: LocatedGroup) -> Iterator[FieldFinding]:
    for field, value in (("labels", each.group.labels), ("taints", each.group.taints)):
        if value:
            yield FieldFinding(
                (*each.path, field),
                f"{each.name} is in a {each.site.scheduler} site: `{field}` has no effect",
                "remove it",
                "warning",
                field,
            )


CHECKS = (labels_legal, taints_legal, labels_without_kubernetes, one_scheduler)
