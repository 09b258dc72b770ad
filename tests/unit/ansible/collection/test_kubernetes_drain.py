"""Draining of Kubernetes nodes, with a stand-in for kubectl and one node."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
GIVEN = {"node": "dgx01", "operation": "upgrade_driver", "by": "ada", "kubeconfig": "/x"}


@pytest.fixture
def module() -> ModuleType:
    return load("kubernetes_drain")


@pytest.fixture
def node(programs: Programs) -> Callable[..., None]:
    """Sets what kubectl says of the node; `stuck` lets its pods stay."""

    def say(*, cordoned: bool = False, note: str = "", ready: bool = True, stuck: str = "") -> None:
        conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
        document = {
            "metadata": {"annotations": {"gpufleet.io/operation": note} if note else {}},
            "spec": {"unschedulable": True} if cordoned else {},
            "status": {"conditions": conditions},
        }
        (programs.folder / "node.json").write_text(json.dumps(document))
        drain = f"echo {stuck} >&2; exit 1" if stuck else "exit 0"
        programs.add("kubectl", f'case "$3" in get) cat {programs.folder}/node.json;; drain) {drain};; esac')

    say()
    return say


def verbs(programs: Programs) -> list[str]:
    return [line.split()[3] for line in programs.called("kubectl") if line.split()[3] != "get"]


def test_node_is_annotated_cordoned_and_drained_in_order(
    module: ModuleType, run: Run, node: Callable[..., None], programs: Programs
) -> None:
    assert run(module, check=True, state="drained", **GIVEN)["changed"] is True
    assert verbs(programs) == []
    assert run(module, state="drained", wait_s=60, **GIVEN)["changed"] is True
    assert verbs(programs) == ["annotate", "cordon", "drain"]
    drain = programs.called("kubectl")[-1]
    assert "--ignore-daemonsets" in drain and "--timeout=60s" in drain


def test_remaining_pods_are_reported_and_only_a_cordoned_node_is_uncordoned(
    module: ModuleType, run: Run, node: Callable[..., None], programs: Programs
) -> None:
    node(cordoned=True, note="upgrade_driver by ada", stuck="pod train-0: disruption budget")
    assert "pod train-0: disruption budget" in run(module, state="drained", **GIVEN)["msg"]
    assert verbs(programs) == ["drain", "uncordon", "annotate"]
    programs.log.unlink()
    node(cordoned=True, stuck="pod train-0: disruption budget")
    assert "stays cordoned, as it was before" in run(module, state="drained", **GIVEN)["msg"]
    assert verbs(programs) == ["drain"]


@pytest.mark.parametrize(
    ("note", "returned"), [("upgrade_driver by grace", True), ("replace_node by ada", False), ("", False)]
)
def test_only_nodes_cordoned_by_the_operation_are_uncordoned(
    module: ModuleType, run: Run, node: Callable[..., None], programs: Programs, note: str, returned: bool
) -> None:
    node(cordoned=True, note=note)
    assert run(module, state="returned", **GIVEN)["changed"] is returned
    assert ("uncordon" in verbs(programs)) is returned


def test_missing_or_not_ready_node_is_an_error(
    module: ModuleType, run: Run, node: Callable[..., None], programs: Programs
) -> None:
    node(ready=False)
    assert "is not ready after 0 s" in run(module, state="ready", **GIVEN)["msg"]
    node()
    assert run(module, state="ready", **GIVEN)["changed"] is False
    programs.add("kubectl", 'echo Error: nodes "dgx01" not found >&2; exit 1')
    assert "not found" in run(module, state="drained", **GIVEN)["msg"]
