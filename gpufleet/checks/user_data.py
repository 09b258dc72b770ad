"""User data and NVMe drives of cloud nodes: what fits the scheduler, the types and EC2's limits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check, listed
from gpufleet.plan.storage import lustre_interfaces
from gpufleet.plan.user_data import plan_local_nvme, plan_user_data
from gpufleet.user_data import EKS_BYTES, MOST_BYTES, mime_document, part_kind

_SECRET = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b(?:gh[pousr]_[0-9A-Za-z]{30,}|github_pat_[0-9A-Za-z_]{40,}|glpat-[0-9A-Za-z_-]{20,})"
    r"|\b(?:hf_[0-9A-Za-z]{30,}|xox[abprs]-[0-9A-Za-z-]{10,}|nvapi-[0-9A-Za-z_-]{40,}|sk-[0-9A-Za-z_-]{32,})"
    r"|(?i:\b[a-z0-9_]*(?:password|passwd|secret|token|api_?key|access_?key|credentials?)[a-z0-9_]*\b)"
    r"['\"]?\s*[=:]\s*['\"]?(?![\"'\s$</]|[A-Za-z]+(?:[\s'\"]|$))[^\s'\"]{6,}"
)
"""What looks like a credential. A name such as TOKEN whose value is a variable, a command, a path or a word
does not."""


@check("user-data-fits")
def user_data_fits(fleet: Fleet) -> Iterator[FieldFinding]:
    """EC2 takes 16 KB of user data, before base64, with the part by which an EKS node joins its cluster."""
    for each in fleet.groups():
        types = fleet.types(each.group)
        parts = plan_user_data(
            each.group,
            plan_local_nvme(each.site, each.group, types),
            lustre_interfaces(each.site, each.group, types, fleet.catalog.lustre_efa_clients),
        )
        size = len(mime_document(parts).encode())
        reserved = EKS_BYTES if each.site.scheduler == "kubernetes" else 0
        if size + reserved > MOST_BYTES:
            yield FieldFinding(
                (*each.path, "user_data"),
                f"the user data of {each.group.name} has {size:,} bytes"
                + (f" and needs {reserved:,} more to join its cluster" if reserved else "")
                + f", and EC2 takes {MOST_BYTES:,}",
                "keep the script in a bucket of the site or in the image, and let the user data fetch it",
                value=f"{size:,} bytes",
            )


@check("user-data-node-config")
def user_data_node_config(fleet: Fleet) -> Iterator[FieldFinding]:
    """Only EKS's nodes read a NodeConfig: nodeadm is in its images (awslabs/amazon-eks-ami)."""
    for each in fleet.groups():
        for index, part in enumerate(each.group.user_data):
            if each.site.scheduler != "kubernetes" and part_kind(part) == "NodeConfig":
                yield FieldFinding(
                    (*each.path, "user_data", index),
                    f"{each.group.name} is in a Slurm site, whose nodes do not read a NodeConfig",
                    "write a shell script or #cloud-config",
                    value="NodeConfig",
                )


@check("user-data-secret")
def user_data_secret(fleet: Fleet) -> Iterator[FieldFinding]:
    """Every process on the node and everyone who may read launch templates reads user data, and its old
    versions stay (EC2 User Guide, "Instance user data": do not store sensitive data in it)."""
    for each in fleet.groups():
        for index, part in enumerate(each.group.user_data):
            found = next(
                (number for number, line in enumerate(part.splitlines(), 1) if _SECRET.search(line)), 0
            )
            if found:
                yield FieldFinding(
                    (*each.path, "user_data", index),
                    f"line {found} of the user data of {each.group.name} holds a credential in the clear",
                    "remove and revoke it, keep the new one in Secrets Manager, and read it on the node:"
                    " `aws secretsmanager get-secret-value --secret-id ...`",
                    value=f"line {found}",
                )


@check("local-nvme")
def local_nvme(fleet: Fleet) -> Iterator[FieldFinding]:
    """Only some instance types have an instance store, and where it is mounted is Slurm's setting: on
    Kubernetes nodeadm places containers and volumes on it."""
    for each in fleet.groups():
        wanted, types = each.group.local_nvme, fleet.types(each.group)
        without = [item.name for item in types if not item.nvme]
        if wanted.use == "raid0" and without:
            verb = "has" if len(without) == 1 else "have"
            yield FieldFinding(
                (*each.path, "local_nvme", "use"),
                f"{listed(without)} of {each.group.name} {verb} no NVMe drives",
                "leave `use` out, or use types with an instance store (`gpufleet catalog instances`)",
            )
        if wanted.mount is not None and each.site.scheduler == "kubernetes":
            yield FieldFinding(
                (*each.path, "local_nvme", "mount"),
                f"{each.group.name} is in a Kubernetes site, where pods use the drives as `emptyDir` volumes",
                "leave `mount` out",
            )
        elif wanted.mount is not None and wanted.use == "none":
            yield FieldFinding(
                (*each.path, "local_nvme", "mount"),
                f"the NVMe drives of {each.group.name} are not used, so nothing is mounted",
                "leave `mount` out, or `use: none`",
            )


CHECKS = (user_data_fits, user_data_node_config, user_data_secret, local_nvme)
