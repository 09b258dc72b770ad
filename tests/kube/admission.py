"""Whether a real API server takes a request, asked by dry runs.

The server reads quotas, policies and roles from watches of its own, a moment after the request that wrote
them. On a busy machine it still takes a pod that they forbid then, or refuses what they allow.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from gpufleet.lab.kubernetes.rest import ApiError, Rest

_LIMIT_S = 300.0


def refusal_of(rest: Rest, path: str, item: Mapping[str, Any], code: int) -> str:
    """Why the server refuses an object, with HTTP's `code`; empty if it accepts it. It is not kept."""
    try:
        rest.call("POST", path, item, query={"dryRun": "All"})
    except ApiError as error:
        assert error.code == code, (error.code, error.message)
        return error.message
    return ""


def refusal(rest: Rest, namespace: str, pod: Mapping[str, Any], code: int = 403) -> str:
    """The same for a pod."""
    return refusal_of(rest, f"/api/v1/namespaces/{namespace}/pods", pod, code)


def refusal_in_time(rest: Rest, namespace: str, pod: Mapping[str, Any], code: int = 403) -> str:
    """The same for the first rule that must refuse the pod, as soon as the server has read it."""
    deadline = time.monotonic() + _LIMIT_S
    while not (message := refusal(rest, namespace, pod, code)):
        assert time.monotonic() < deadline, f"the server accepts {pod} in {namespace}"
        time.sleep(0.2)
    return message


def wait_for_right_to_read(user: Rest, path: str) -> None:
    """Until the server has read the roles of a user."""
    deadline = time.monotonic() + _LIMIT_S
    while True:
        try:
            user.call("GET", path)
            return
        except ApiError as error:
            if error.code != 403 or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def count_quotas(rest: Rest, namespace: str) -> None:
    """Write the status that the quota controller would: limits apply, and nothing is used."""
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    for item in rest.call("GET", quotas)["items"]:
        hard = item["spec"]["hard"]
        item["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}
        rest.call("PUT", f"{quotas}/{item['metadata']['name']}/status", item)
