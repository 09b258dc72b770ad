"""Jobs of teams on a cluster with Kueue, and what Kueue says of them."""

from __future__ import annotations

from typing import Any

from gpufleet.lab.kubernetes.rest import Rest
from tests.kube.kueue_manager import wait

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


def condition(item: dict[str, Any], kind: str) -> tuple[str, str]:
    """(status, message) of a condition of an object."""
    for each in item.get("status", {}).get("conditions") or ():
        if each["type"] == kind:
            return each["status"], each["message"]
    return "", ""


def pods(
    count: int, gpus: int, group_name: str = "", annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    """The fields of a job with pods that request GPUs."""
    amount = {"nvidia.com/gpu": str(gpus)}
    container = {"name": "c", "image": "i", "resources": {"requests": amount, "limits": amount}}
    template: dict[str, Any] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    if group_name:
        template["spec"]["nodeSelector"] = {"gpufleet.io/node-group": group_name}
    if annotations:
        template["metadata"] = {"annotations": annotations}
    return {"parallelism": count, "completions": count, "template": template}


class Jobs:
    """Jobs of a test, deleted after it."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._made: list[str] = []

    def submit(self, team: str, name: str, fields: dict[str, Any], **labels: str) -> None:
        path = f"/apis/batch/v1/namespaces/{team}/jobs"
        self._rest.call("POST", path, {"metadata": {"name": name, "labels": labels}, "spec": fields})
        self._made.append(f"{path}/{name}")

    def job(self, team: str, name: str) -> dict[str, Any]:
        return self._rest.call("GET", f"/apis/batch/v1/namespaces/{team}/jobs/{name}")

    def workload(self, team: str, name: str) -> dict[str, Any]:
        for item in self._rest.call("GET", f"{KUEUE}/namespaces/{team}/workloads")["items"]:
            if item["metadata"]["ownerReferences"][0]["name"] == name:
                return dict(item)
        return {}

    def admitted(self, team: str, name: str) -> dict[str, Any]:
        """The workload of a job, once it is admitted."""
        wait(
            f"{name} is admitted",
            lambda: condition(self.workload(team, name), "Admitted")[0] == "True",
            lambda: str(self.workload(team, name).get("status")),
        )
        wait(f"{name} runs", lambda: not self.job(team, name)["spec"]["suspend"])
        return self.workload(team, name)

    def refused(self, team: str, name: str, why: str) -> str:
        """What Kueue says of a job that waits for this reason. It may say another one first: it counts jobs
        that have ended for a moment."""

        def reported() -> str:
            status, message = condition(self.workload(team, name), "QuotaReserved")
            assert status != "True", f"{name} is admitted"
            return message if why in message else ""

        message = wait(
            f"{name} waits for {why}", reported, lambda: str(self.workload(team, name).get("status"))
        )
        assert self.job(team, name)["spec"]["suspend"]
        return message

    def delete(self, team: str, name: str) -> None:
        """Delete a job, and its workload: no garbage collector runs here."""
        workload = self.workload(team, name)["metadata"]["name"]
        path = f"/apis/batch/v1/namespaces/{team}/jobs/{name}"
        self._rest.call("DELETE", path, {"propagationPolicy": "Background", "gracePeriodSeconds": 0})
        self._rest.call("DELETE", f"{KUEUE}/namespaces/{team}/workloads/{workload}")
        self._made.remove(path)

    def end(self) -> None:
        for path in self._made:
            self._rest.call("DELETE", path, {"propagationPolicy": "Background", "gracePeriodSeconds": 0})
        for team in ("research", "serving"):
            path = f"{KUEUE}/namespaces/{team}/workloads"
            for item in self._rest.call("GET", path)["items"]:  # no garbage collector runs here
                self._rest.call("DELETE", f"{path}/{item['metadata']['name']}")
            wait(f"workloads of {team} are gone", lambda path=path: not self._rest.call("GET", path)["items"])
