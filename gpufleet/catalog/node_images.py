"""Machine images of nodes: their releases, and what AWS's release notes say of each.

`python -m gpufleet.catalog.node_images CHANGELOG.md SOURCE DAY` writes data/eks_images.json from the
CHANGELOG of awslabs/amazon-eks-ami, which has a table of packages for each release and version of Kubernetes.
data/deep_learning_images.json is written by hand from the release notes of AWS Deep Learning AMIs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from gpufleet.catalog.store import EKS_IMAGES

OLDEST = "20260101"
OLDEST_KUBERNETES = "1.33"
"""Releases and versions before these are left out of the file."""

_VERSION = re.compile(r"<summary><b>Kubernetes (1\.\d\d)</b></summary>(.*?)</details>", re.DOTALL)
_PATCH = re.compile(r"1\.\d\d\.\d+-\d{8}")
_COLUMN = "AL2023_x86_64_NVIDIA"
_NEURON_COLUMN = "AL2023_x86_64_NEURON"
_ARM_IMAGE = "amazon-eks-node-al2023-arm64-standard-"
_NONE = "—"


def eks_images(changelog: str, source: str) -> Iterator[dict[str, Any]]:
    """Yield an entry of data/eks_images.json for each release since `OLDEST` and version of Kubernetes."""
    for version, text in _VERSION.findall(changelog):
        tables = _Tables()
        tables.feed(text)
        names, packages, *_ = [*tables.tables, []]
        patch = next((cell for row in names for cell in row if _PATCH.fullmatch(cell)), "")
        release = patch.rpartition("-")[2]
        if version < OLDEST_KUBERNETES or release < OLDEST:
            continue
        found, neuron = _packages(packages, _COLUMN), _packages(packages, _NEURON_COLUMN)
        yield {
            "family": "eks-al2023",
            "release": release,
            "kubernetes": version,
            "version": patch,
            "driver": found.get("kmod-nvidia-latest-dkms") or found.get("nvidia-driver-latest-dkms"),
            "efa_module": found.get("efa"),
            "container_toolkit": found.get("nvidia-container-toolkit"),
            "neuron_driver": neuron.get("aws-neuronx-dkms"),
            "arm64": any(cell.startswith(_ARM_IMAGE) for row in names for cell in row),
            "in_containers": ["cuda", "nccl"],
            "source": source,
        }


def _packages(table: list[list[str]], image: str) -> dict[str, str]:
    """Return the upstream version of each package in the column of an image, such as NVIDIA's for x86."""
    if image not in table[0]:
        return {}
    column = table[0].index(image)
    return {
        row[0]: row[column].partition("-")[0]
        for row in table[1:]
        if len(row) > column and row[column] != _NONE
    }


class _Tables(HTMLParser):
    """Reads the tables of a fragment: rows of cells, a cell with `colspan` in each of its columns."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._width = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a table, a row or a cell."""
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._width = int(dict(attrs).get("colspan") or 1)

    def handle_data(self, data: str) -> None:
        """Take the text of a cell."""
        if self._width and data.strip():
            self.tables[-1][-1] += [data.strip()] * self._width
            self._width = 0


def main(path: str, source: str, day: str) -> None:
    """Write data/eks_images.json from the CHANGELOG at `path`; `source` says which one it is,
    and `day` (YYYY-MM-DD) how old."""
    entries = list(eks_images(Path(path).read_text(encoding="utf-8"), "s1"))
    lines = ",\n  ".join(json.dumps(entry) for entry in entries)
    sources = json.dumps({"s1": {"text": source, "date": day}})
    target = Path(__file__).parent / "data" / EKS_IMAGES
    target.write_text(f'{{\n "sources": {sources},\n "images": [\n  {lines}\n ]\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
