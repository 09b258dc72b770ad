"""The real Kueue beside an API server, with its definitions, its webhooks and its own certificates.

What its chart installs is made from Kueue's Go module. The API server reaches the webhooks by a service whose
external name is this machine. Rights are an administrator's, and there is one manager without an election.
"""

from __future__ import annotations

import base64
import copy
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from gpufleet.lab.kubernetes.rest import ApiError
from tests.kube import charts, cluster_programs
from tests.kube.cluster import ApiServerProcess, free_ports

T = TypeVar("T")
Object = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACE = "kueue-system"
_SERVICE, _SECRET = "kueue-webhook-service", "kueue-webhook-server-cert"
_CONVERTED = ("localqueues", "clusterqueues", "workloads", "cohorts", "multikueueclusters")
# Those of kinds that the tests use: others would wait for definitions that no one has.
_WEBHOOKS = ("clusterqueue", "resourceflavor", "workload", "cohort", "job", "jobset")
_WAIT_S = 300.0


class KueueManager:
    """Kueue with the configuration of its chart's values, started by `start`."""

    def __init__(self, server: ApiServerProcess, folder: Path, values: Mapping[str, Any]) -> None:
        self.server, self.rest = server, server.rest()
        self._folder, self._log = folder, folder / "kueue.log"
        self._certificates = folder / "certificates"
        self._certificates.mkdir()
        (self._port, health, metrics) = free_ports(3)
        configuration = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
        configuration["webhook"] = {"port": self._port, "certDir": str(self._certificates)}
        configuration["health"]["healthProbeBindAddress"] = f"127.0.0.1:{health}"
        configuration["metrics"]["bindAddress"] = f"127.0.0.1:{metrics}"
        configuration["leaderElection"]["leaderElect"] = False
        (folder / "kueue.yaml").write_text(json.dumps(configuration))
        self._process: subprocess.Popen[bytes] | None = None
        self.refusal = ""

    def install(self) -> None:
        """Create what the chart does: definitions, the webhooks, and the secret of their certificate."""
        for file in sorted((charts.kueue() / "definitions").glob("*.yaml")):
            self.define(yaml.load(file.read_text(), Loader=yaml.CSafeLoader))
        secrets = f"/api/v1/namespaces/{NAMESPACE}/secrets"
        self.rest.call("POST", secrets, {"metadata": {"name": _SECRET}})
        service = {
            "metadata": {"name": _SERVICE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
        self.rest.call("POST", f"/api/v1/namespaces/{NAMESPACE}/services", service)
        module = cluster_programs.module_folder("programs/kueue", cluster_programs.KUEUE_MODULE)
        text = (module / "config/components/webhook/manifests.yaml").read_text()
        for item in yaml.load_all(text, Loader=yaml.CSafeLoader):
            item["metadata"]["name"] = f"kueue-{item['metadata']['name']}"
            item["webhooks"] = [
                self._at_home(each) for each in item["webhooks"] if each["name"][1:-6] in _WEBHOOKS
            ]
            path = "/apis/admissionregistration.k8s.io/v1/" + item["kind"].lower() + "s"
            self.rest.call("POST", path, item)

    def define(self, definition: Object) -> None:
        """Create a definition, as served once it is established."""
        made = copy.deepcopy(definition)
        name = made["metadata"]["name"]
        if name.partition(".")[0] in _CONVERTED and name.endswith(".kueue.x-k8s.io"):
            webhook = {
                "clientConfig": {"service": self._service("/convert")},
                "conversionReviewVersions": ["v1"],
            }
            made["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        self.rest.call("POST", DEFINITIONS, made)

        def served() -> bool:
            status = self.rest.call("GET", f"{DEFINITIONS}/{name}").get("status", {})
            found = status.get("conditions") or ()
            return any(each["type"] == "Established" and each["status"] == "True" for each in found)

        wait(f"{name} is served", served)

    def _at_home(self, webhook: Object) -> Object:
        client = {"service": self._service(webhook["clientConfig"]["service"]["path"])}
        return webhook | {"clientConfig": client}

    def _service(self, path: str) -> Object:
        return {"name": _SERVICE, "namespace": NAMESPACE, "path": path, "port": self._port}

    def start(self) -> None:
        """Start the manager, and return once its webhooks answer."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", str(cluster_programs.program("kueue"))),
                    f"--config={self._folder / 'kueue.yaml'}",
                    f"--kubeconfig={self.server.kubeconfig}",
                    "--feature-gates=VisibilityOnDemand=false",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env={"PATH": os.environ["PATH"], "HOME": str(self._folder)},
            )

        def certified() -> bool:
            # The kubelet mounts the secret that Kueue fills.
            data = (
                self.rest.call("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{_SECRET}").get("data") or {}
            )
            for name, value in data.items():
                (self._certificates / name).write_bytes(base64.b64decode(value))
            return "tls.crt" in data

        def answers() -> bool:
            self.check()
            api = "kueue.x-k8s.io/v1beta2"
            flavor = {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "asked"}, "spec": {}}
            try:
                self.rest.call("POST", f"/apis/{api}/resourceflavors", flavor, query={"dryRun": "All"})
            except ApiError as error:
                self.refusal = error.message
                return False
            return True

        wait("Kueue has its certificate", certified, self.tail)
        wait("Kueue answers", answers, self.tail)

    def check(self) -> None:
        """Fail if the manager has ended."""
        assert self._process is not None and self._process.poll() is None, self.tail()

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join([self.refusal, *self._log.read_text(errors="replace").splitlines()[-30:]])

    def stop(self) -> None:
        """Stop the manager."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def wait(what: str, found: Callable[[], T], more: Callable[[], str] = str) -> T:
    """Return what a function finds once it finds something."""
    deadline = time.monotonic() + _WAIT_S
    while not (answer := found()):
        assert time.monotonic() < deadline, f"not within {_WAIT_S:g} s: {what}\n{more()}"
        time.sleep(0.3)
    return answer
