"""Results of modules: refusals and host errors are reported with a message, and bugs are not hidden."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

from tests.unit.ansible.collection.conftest import PLUGINS, load


def ended(
    capsys: pytest.CaptureFixture[str],
    work: Callable[[], dict[str, Any]],
    reported: dict[str, Any] | None = None,
) -> dict[str, Any]:
    with patch_module_args({}), pytest.raises(SystemExit):
        finish(AnsibleModule(argument_spec={}), work, reported)
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_successful_result_has_no_failure_fields(capsys: pytest.CaptureFixture[str]) -> None:
    answer = ended(capsys, lambda: {"changed": True, "diff": difference("x", "", "y\n")}, {"reached": 3})
    assert answer["changed"] is True
    assert answer["diff"] == {"before_header": "x", "after_header": "x", "before": "", "after": "y\n"}
    assert "failed" not in answer and "msg" not in answer and "reached" not in answer


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        (RefusalError("Wrong, and what to do."), "Wrong, and what to do."),
        (PermissionError(13, "Permission denied", "/etc/x"), "[Errno 13] Permission denied: '/etc/x'"),
        (subprocess.TimeoutExpired("sacctmgr", 60), "Command 'sacctmgr' timed out after 60 seconds"),
    ],
)
def test_host_error_is_reported_with_the_progress(
    failure: Exception, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reported: dict[str, Any] = {"changed": False, "done": []}

    def work() -> dict[str, Any]:
        reported["changed"] = True
        reported["done"].append("first")
        raise failure

    answer = ended(capsys, work, reported)
    assert answer["failed"] is True and answer["msg"] == shown
    assert (answer["changed"], answer["done"]) == (True, ["first"])


def test_module_bug_is_not_reported_as_a_refusal() -> None:
    def work() -> dict[str, Any]:
        raise KeyError("name")

    with patch_module_args({}), pytest.raises(KeyError):
        finish(AnsibleModule(argument_spec={}), work)


@pytest.mark.parametrize("name", sorted(path.stem for path in (PLUGINS / "modules").glob("*.py")))
def test_every_module_uses_the_one_refusal_class(name: str) -> None:
    assert getattr(load(name), "RefusalError", RefusalError) is RefusalError
