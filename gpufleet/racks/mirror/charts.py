"""Charts from where they are published: a web folder with an index, or a registry (helm.sh, `helm pull`)."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import yaml

from gpufleet.catalog import HelmChart
from gpufleet.racks.mirror.skopeo import CopyError, blob, copy_image, layers
from gpufleet.racks.mirror.web import UnreachableError, ask

ARCHIVE = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def read_chart(chart: HelmChart, skopeo: str, scratch: Path) -> bytes:
    """Return the archive of a chart, compared with its digest. Raises CopyError."""
    if chart.repository.startswith("oci://"):
        return _from_registry(chart, skopeo, scratch)
    return _from_index(chart)


def _from_registry(chart: HelmChart, skopeo: str, scratch: Path) -> bytes:
    name = f"{chart.repository.removeprefix('oci://')}/{chart.name}:{chart.version}"
    with tempfile.TemporaryDirectory(dir=scratch) as made:
        folder = Path(made)
        copy_image(skopeo, name, folder)
        for layer in layers(folder):
            if layer["mediaType"] == ARCHIVE:
                return blob(folder, layer["digest"]).read_bytes()
    raise CopyError(f"{name} is not a chart: it has no layer of type {ARCHIVE}")


def _from_index(chart: HelmChart) -> bytes:
    base = f"{chart.repository}/"
    try:
        index: Any = yaml.load(_read(f"{base}index.yaml"), Loader=yaml.CSafeLoader)
        entry = next(each for each in index["entries"][chart.name] if each["version"] == chart.version)
        address, digest = urljoin(base, entry["urls"][0]), entry.get("digest", "")
    except (KeyError, IndexError, TypeError, StopIteration, yaml.YAMLError):
        raise CopyError(f"{base}index.yaml has no {chart.name} {chart.version}") from None
    archive = _read(address)
    found = hashlib.sha256(archive).hexdigest()
    if digest and found != digest.removeprefix("sha256:"):
        raise CopyError(f"{address} has the digest {found}, and the index says {digest}")
    return archive


def _read(address: str) -> bytes:
    try:
        answer = ask(address)
    except UnreachableError as error:
        raise CopyError(str(error)) from None
    if answer.code != 200:
        raise CopyError(f"{address} answers {answer.code}")
    return answer.body
