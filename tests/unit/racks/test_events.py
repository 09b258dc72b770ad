"""Events of a run: results of tasks with secrets."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.racks.events import task_event

HIDDEN = {"censored": "the output has been hidden due to the fact that 'no_log: true' was specified"}


def raw(result: dict[str, Any], stdout: str) -> dict[str, Any]:
    data = {"host": "ctl01", "task": "Write the key", "role": "munge", "res": result}
    return {"event": "runner_on_ok", "event_data": data, "stdout": stdout}


@pytest.mark.parametrize(
    ("result", "stdout", "kind"),
    [
        (HIDDEN, "\x1b[0;33mchanged: [ctl01]\x1b[0m", "changed"),
        (HIDDEN, "\x1b[0;32mok: [ctl01]\x1b[0m", "ok"),
        ({"changed": True}, "", "changed"),
        ({"changed": False, "msg": "changed: [nothing]"}, "changed: [nothing]", "ok"),
    ],
)
def test_change_by_a_task_with_secrets_is_recorded(result: dict[str, Any], stdout: str, kind: str) -> None:
    event = task_event(raw(result, stdout))
    assert event is not None
    assert event.kind == kind


def test_message_of_a_debug_task_is_a_notice_and_no_other_message() -> None:
    reported = raw({"msg": "not\n installed"}, "")
    for action, notice in (("ansible.builtin.debug", "not installed"), ("ansible.builtin.assert", "")):
        reported["event_data"]["task_action"] = action
        event = task_event(reported)
        assert event is not None
        assert event.notice == notice
