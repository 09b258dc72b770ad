"""The handler's Deployment: what it may do, and the code in it."""

from __future__ import annotations

import base64
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpufleet.components.notice_handler import NoticeHandler, NoticeHandlerArgs, handler_code
from gpufleet.policy.examples import evaluate
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Example
from tests.unit.components.recording import EchoMocks, Recording, record

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = {"region": "us-east-1", "scheduler": "kubernetes", "tags": {"gpufleet:fleet": "atlas"}}
URL = "https://sqs.us-east-1.amazonaws.com/123456789012/notices"


@pytest.fixture(scope="module")
def made() -> Recording:
    args = NoticeHandlerArgs(settings=SETTINGS, queue_url=URL, labels={"gpufleet.io/site": "use1"})
    return record(lambda: NoticeHandler("notices", args), EchoMocks())


def kubernetes_rules() -> Iterator[Any]:
    yield from (rule for rule in load_rules(ROOT) if rule.name.startswith("kubernetes-"))


def test_kubernetes_rules_accept_the_handler(made: Recording) -> None:
    objects = tuple(
        {"type": each.type, "props": dict(each.inputs)}
        for each in made
        if each.type.startswith("kubernetes:")
    )
    assert len(objects) == 7
    found = [
        f"{rule.name}: {violation.message}"
        for rule in kubernetes_rules()
        for violation in evaluate(rule, Example(objects))
    ]
    assert found == []


def test_handler_reads_no_secret_and_creates_nothing(made: Recording) -> None:
    rules = made.one("ClusterRole").inputs["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "patch", "delete"}
    assert {kind for rule in rules for kind in rule["resources"]} == {"nodes", "pods"}
    deleting = [rule["resources"] for rule in rules if "delete" in rule["verbs"]]
    assert deleting == [["pods"]]


def test_only_one_handler_runs(made: Recording) -> None:
    spec = made.one("Deployment").inputs["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")


def test_code_is_a_program_that_needs_nothing_of_gpufleet_besides(made: Recording, tmp_path: Path) -> None:
    packed = base64.b64decode(made.one("ConfigMap").inputs["binaryData"]["notices.pyz"])
    assert packed == handler_code()
    # A ConfigMap holds at most 1 MiB.
    assert len(packed) < 200_000
    path = tmp_path / "notices.pyz"
    path.write_bytes(packed)
    with zipfile.ZipFile(path) as archive:
        others = [name for name in archive.namelist() if not name.startswith("gpufleet/notices/")]
    assert others == ["__main__.py", "gpufleet/__init__.py"]
    settings = tmp_path / "settings.json"
    settings.write_text("{}")
    command = [sys.executable, str(path), str(settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, "is missing: add it" in done.stderr) == (2, True)
