"""A callback that prints Ansible's events, one JSON object a line."""

from __future__ import annotations

import json
import sys
from typing import Any

from ansible.plugins.callback import CallbackBase

# They differ from run to run.
LEFT_OUT = ("start", "end", "delta", "exception")


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Of each task on each host: its start, its end, all of its result; at the end the statistics."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "record"

    def tell(self, event: str, host: str, **more: Any) -> None:
        sys.stdout.write(json.dumps({"event": event, "host": host} | more, default=str) + "\n")
        sys.stdout.flush()

    def tell_result(self, event: str, result: Any, **more: Any) -> None:
        kept = {key: value for key, value in result.result.items() if key not in LEFT_OUT}
        self.tell(event, result.host.name, task=result.task.get_name(), result=kept, **more)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self.tell("start", host.name, task=task.get_name())

    def v2_runner_on_ok(self, result: Any) -> None:
        self.tell_result("ok", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self.tell_result("skipped", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self.tell_result("failed", result, ignored=ignore_errors)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        for host in sorted(stats.processed):
            self.tell("stats", host, result=stats.summarize(host))
