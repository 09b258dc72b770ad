"""Cases that a real server in tests/kube cannot show: unreachable clusters, and invalid objects."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}
AWAY = "echo 'The connection to the server 10.0.0.1:6443 was refused - connection refused' >&2; exit 1"


@pytest.fixture
def module() -> ModuleType:
    return load("kubernetes_objects")


def test_missing_cluster_is_a_difference_in_check_mode(
    run: Run, module: ModuleType, programs: Programs
) -> None:
    programs.add("kubectl", AWAY)
    found = run(module, check=True, objects=[NAMESPACE], part_of="t", prune=["namespaces"])
    assert found["changed_objects"] == ["Namespace research"] and found["removed_objects"] == []


def test_missing_kubectl_is_a_difference_in_check_mode(
    run: Run, module: ModuleType, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The default folders may have one.
    monkeypatch.setattr(module, "Program", lambda *_: lambda *_words, **_more: module.Answer(127, "", ABSENT))
    assert run(module, check=True, objects=[NAMESPACE], part_of="t")["changed"] is True


ABSENT = "kubectl is not installed: no such file or directory"


def test_missing_cluster_fails_a_real_run_with_a_remedy(
    run: Run, module: ModuleType, programs: Programs
) -> None:
    programs.add("kubectl", AWAY)
    failed = run(module, objects=[NAMESPACE], part_of="t")
    assert "connection refused" in failed["msg"] and "kubectl get --raw /readyz" in failed["msg"]
    assert not programs.called("kubectl apply")


def test_request_is_repeated_while_its_response_is_lost(
    run: Run, module: ModuleType, programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    utils = sys.modules[module.Program.__module__]
    monkeypatch.setattr(utils, "PAUSE_S", 0)
    # Each verb loses its first response.
    programs.add(
        "kubectl",
        f'[ -e {tmp_path}/$1 ] || {{ touch {tmp_path}/$1; echo "error: Get: EOF" >&2; exit 1; }}\n'
        f"[ $1 = get ] || echo '{json.dumps(NAMESPACE)}'",
    )
    assert run(module, objects=[NAMESPACE], part_of="t")["changed_objects"] == ["Namespace research"]
    assert [line.split()[1] for line in programs.called("kubectl")] == ["get"] * 2 + ["apply"] * 3
    monkeypatch.setattr(utils, "REPEAT_S", 0)
    programs.add("kubectl", 'echo "error: Get: EOF" >&2; exit 1')
    before = len(programs.called("kubectl"))
    assert "Get: EOF" in run(module, objects=[NAMESPACE], part_of="t")["msg"]
    # One that takes long to fail, too, is tried more than once.
    assert len(programs.called("kubectl")) == before + utils.TRIES


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        ([NAMESPACE, NAMESPACE], "Namespace research is there twice"),
        ([{"kind": "Namespace", "metadata": {"name": "a"}}], "needs apiVersion, kind and metadata"),
        ([{"apiVersion": "v1", "kind": "Pod", "metadata": {}}], "A Pod without metadata.name"),
    ],
)
def test_invalid_object_is_refused_before_any_request(
    run: Run, module: ModuleType, programs: Programs, objects: list[dict[str, Any]], says: str
) -> None:
    programs.add("kubectl", "exit 0")
    assert says in run(module, objects=objects, part_of="t")["msg"]
    assert programs.called() == []


def test_hanging_server_is_an_error_with_a_remedy(run: Run, module: ModuleType, programs: Programs) -> None:
    programs.add("kubectl", "exec sleep 60")
    failed = run(module, objects=[NAMESPACE], part_of="t", timeout_s=1)
    assert "took longer than 1 s" in failed["msg"]


def test_data_of_a_secret_is_in_no_diff(module: ModuleType) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "annotations": {"last": "cGFzc3dvcmQ="}},
        "data": {"k": "cGFzc3dvcmQ="},
        "stringData": {"k": "password"},
    }
    shown = module.shown(secret)
    assert "Secret" in shown and "password" not in shown and "cGFzc3dvcmQ" not in shown
