#!/usr/bin/python
"""Ansible module: build NVIDIA's nccl-tests from source on the host."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
---
module: nccl_tests
short_description: Builds nccl-tests
description:
  - Builds the tests from their source archive into C(/opt/nccl-tests/<version>), with the link
    C(/opt/nccl-tests/current).
  - Rebuilds them if the archive or NCCL changes. An interrupted build
    leaves no files.
options:
  version:
    description: Version of nccl-tests.
    type: str
    required: true
  archive:
    description: Source archive (tar.gz), a path on the host or an http(s) address.
    type: str
    required: true
  sha256:
    description: SHA-256 of the archive.
    type: str
    required: true
  cuda_home:
    description: CUDA toolkit on the host.
    type: path
    required: true
  nccl:
    description: NCCL version to build against.
    type: str
    required: true
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Build nccl-tests
  gpufleet.rack.nccl_tests:
    version: 2.18.3
    archive: https://packages.example.com/nccl-tests-2.18.3.tar.gz
    sha256: "{{ nccl_tests_sha256 }}"
    cuda_home: /usr/local/cuda
    nccl: 2.31.2
"""

RETURN = r"""
programs:
  description: Installed tests.
  type: list
  returned: success
"""

TARGET = Path("/opt/nccl-tests")
STAMP = ".built"


class BuildError(Exception):
    """Value, rule and remedy in one text."""


def built(target, version, stamp):
    """Whether this build exists and is the current one."""
    try:
        same = (target / version / STAMP).read_text() == stamp
        return same and (target / "current").readlink() == Path(version)
    except OSError:
        return False


def fetch(archive, sha256, into):
    """The archive as a file with the right SHA-256."""
    path = into / "source.tar.gz"
    if archive.startswith(("http://", "https://")):
        with urllib.request.urlopen(archive, timeout=60) as answer, path.open("wb") as file:  # noqa: S310
            shutil.copyfileobj(answer, file)
    else:
        shutil.copyfile(archive, path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        raise BuildError(
            f"The archive {archive} has the SHA-256 {found} and should have {sha256}. Do not use it before "
            "you know why: correct nccl_tests_archive or nccl_tests_sha256."
        )
    return path


def unpack(tar, folder):
    """Extract regular files and folders below `folder`; raises for paths outside."""
    for member in tar.getmembers():
        inside = not member.name.startswith("/") and ".." not in Path(member.name).parts
        if not inside or not (member.isfile() or member.isdir()):
            raise BuildError(
                f"The archive of nccl-tests has {member.name!r}, which is no file or folder inside it: "
                "provide an archive that contains only its sources."
            )
    # Python 3.11.2 of Debian 12 lacks filters; 3.12 and 3.13 warn without one.
    tar.extraction_filter = getattr(tarfile, "data_filter", None)
    tar.extractall(folder)  # noqa: S202 - all members were looked at


def make(target, version, archive, sha256, cuda_home, stamp):
    """Build the tests in a temporary folder and move them into place."""
    for program in ("make", "g++"):
        if shutil.which(program) is None:
            raise BuildError(
                f"nccl-tests are built with {program}, which the host does not have: install it."
            )
    if not os.access(f"{cuda_home}/bin/nvcc", os.X_OK):
        raise BuildError(
            f"There is no {cuda_home}/bin/nvcc: nccl-tests are built with a CUDA toolkit. Install "
            "cuda-toolkit or set nccl_tests_cuda_home."
        )
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".build-") as name:
        folder = Path(name)
        with tarfile.open(fetch(archive, sha256, folder)) as tar:
            unpack(tar, folder / "source")
        (source,) = [path for path in (folder / "source").iterdir() if path.is_dir()]
        done = subprocess.run(
            ["make", f"-j{os.cpu_count()}", "MPI=0", f"CUDA_HOME={cuda_home}"],
            cwd=source,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BuildError(
                f"nccl-tests {version} do not build: {(done.stdout + done.stderr).strip()[-500:]}"
            )
        place = source / "build"
        (place / STAMP).write_text(stamp)
        shutil.rmtree(target / version, ignore_errors=True)
        place.replace(target / version)
        link = folder / "current"
        link.symlink_to(version)
        link.replace(target / "current")


def main():
    """Entry point of the module."""
    names = ("version", "archive", "sha256", "nccl")
    module = AnsibleModule(
        argument_spec={
            **{name: {"type": "str", "required": True} for name in names},
            "cuda_home": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    stamp = f"{given['sha256']} nccl {given['nccl']}\n"
    changed = not built(TARGET, given["version"], stamp)
    try:
        if changed and not module.check_mode:
            make(TARGET, given["version"], given["archive"], given["sha256"], given["cuda_home"], stamp)
    except (BuildError, OSError, ValueError, tarfile.TarError) as error:
        module.fail_json(msg=str(error))
    programs = sorted(path.name for path in (TARGET / "current").glob("*_perf"))
    module.exit_json(changed=changed, programs=programs)


if __name__ == "__main__":
    main()
