"""What a Slurm node in the cloud does at boot, in which order (role slurm_cloud_node)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.loading import load_source

PROGRAM = Path(__file__).resolve().parents[3] / "ansible/roles/slurm_cloud_node/files/cloud-node"
SETTINGS = {
    "controllers": ["10.0.0.5:6817"],
    "region": "us-east-1",
    "munge_parameter": "/gpufleet/key",
    "mounts": [
        {"kind": "lustre", "source": "fs-1.fsx@tcp:/abc", "path": "fsx", "options": "relatime,flock,_netdev"}
    ],
}


@pytest.fixture
def program() -> ModuleType:
    return load_source(PROGRAM, "cloud_node")


def test_file_systems_are_mounted_after_the_scripts_of_the_user_data_and_before_slurmd(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[list[str]] = []

    def run(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(words)
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(program.subprocess, "run", run)
    monkeypatch.setattr(program.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(program, "read_settings", lambda: SETTINGS)
    monkeypatch.setattr(program, "read_name", lambda: "use1-train-1")
    monkeypatch.setattr(program, "read_key", lambda _: "k" * 32)
    monkeypatch.setattr(program, "write", lambda *_: None)
    assert program.main() == 0
    assert calls == [
        ["hostnamectl", "set-hostname", "use1-train-1"],
        ["cloud-init", "status", "--wait"],
        ["mount", "-t", "lustre", "-o", "relatime,flock,_netdev", "fs-1.fsx@tcp:/abc", "fsx"],
        ["systemctl", "start", "munge.service", "slurmd.service"],
    ]
