"""User data of cloud nodes: its parts, their kinds, and the MIME document that cloud-init reads."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

PartKind = Literal["shell script", "cloud-config", "NodeConfig"]

STARTS: Mapping[str, PartKind] = MappingProxyType(
    {"#!/": "shell script", "#cloud-config\n": "cloud-config", "apiVersion: node.eks.aws/": "NodeConfig"}
)
"""How a part starts -> what it is (cloud-init, "User data formats"; nodeadm API, awslabs/amazon-eks-ami)."""

_TYPES = {
    "shell script": 'text/x-shellscript; charset="utf-8"',
    "cloud-config": 'text/cloud-config; charset="utf-8"',
    "NodeConfig": "application/node.eks.aws",
}

MOST_BYTES = 16_384
"""EC2 takes 16 KB of user data, counted before base64 (EC2 User Guide, "Run commands at launch")."""

EKS_BYTES = 4_096
"""Left free for the NodeConfig by which a node joins its cluster: name, endpoint, certificate and taints. Its
size is known only with the cluster; a certificate of 2,048 bits takes about 1.5 KB."""


def part_kind(part: str) -> PartKind | None:
    """Return what a part of user data is by how it starts; None if it starts with none of `STARTS`."""
    return next((kind for start, kind in STARTS.items() if f"{part}\n".startswith(start)), None)


def mime_document(parts: Sequence[str]) -> str:
    """Return the parts as one MIME document (multipart/mixed), in order.

    Equal parts give an equal document: its boundary follows from them. nodeadm merges the NodeConfigs in it,
    and the last one wins. Raises ValueError for a part of an unknown kind.
    """
    boundary = f"==gpufleet-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}=="
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for part in parts:
        kind = part_kind(part)
        if kind is None:
            raise ValueError(f"a part of the user data starts with {part[:20]!r}")
        lines += [f"--{boundary}", f"Content-Type: {_TYPES[kind]}", "", part.rstrip("\n"), ""]
    return "\n".join([*lines, f"--{boundary}--", ""])


def encoded(document: str) -> str:
    """Return the document as launch templates take it, in base64."""
    return base64.b64encode(document.encode()).decode()
