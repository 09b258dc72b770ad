"""Nvsentinel: pinned releases, only the modules that are asked for, encrypted volumes for its database."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpufleet.components.nvsentinel import OFF, STORAGE_CLASS, Nvsentinel, NvsentinelArgs
from gpufleet.kinds import NOTICES_NAMESPACE
from tests.unit.components.recording import Recording, record


def built(**changes: Any) -> Recording:
    args: dict[str, Any] = {"version": "v1.14.0", "cert_manager_version": "v1.19.1", "labels": {}}
    return record(lambda: Nvsentinel("repair", NvsentinelArgs(**args | changes)))


def release(made: Recording) -> Any:
    return made.one("Release", "repair").inputs


def enabled(made: Recording) -> set[str]:
    found = release(made)["values"]["global"]
    return {name for name, value in found.items() if isinstance(value, dict) and value.get("enabled")}


def test_release_is_pinned_by_its_version_and_so_are_its_images() -> None:
    made = release(built(version="v1.2.3"))
    assert (made["chart"], made["version"]) == ("oci://ghcr.io/nvidia/nvsentinel", "v1.2.3")
    assert made["values"]["global"]["image"] == {"tag": "v1.2.3"}
    # The network policy of the chart's database selects by the namespace what is named after the release.
    assert made["name"] == made["namespace"] == "nvsentinel"
    assert made["skipAwait"] is True


@pytest.mark.parametrize(
    ("action", "more"),
    [
        ("detect", set()),
        ("quarantine", {"mongodbStore", "faultQuarantine"}),
        ("drain", {"mongodbStore", "faultQuarantine", "nodeDrainer"}),
    ],
)
def test_each_action_enables_its_modules_and_no_others(action: str, more: set[str]) -> None:
    made = built(action=action)
    assert enabled(made) == {"gpuHealthMonitor", "syslogHealthMonitor", "labeler"} | more
    found = release(made)["values"]["global"]
    assert all(found[module] == {"enabled": False} for module in OFF)
    assert {"cspHealthMonitor", "faultRemediation", "janitor", "janitorProvider"} < set(OFF)


def test_detection_needs_neither_a_database_nor_certificates() -> None:
    made = built(action="detect")
    assert len(made.of("Release")) == 1
    assert made.of("StorageClass") == []


def test_database_has_encrypted_volumes_and_certificates_before_it_starts() -> None:
    made = built(action="quarantine")
    volumes, issuer = made.one("StorageClass"), made.one("Release", "repair-cert-manager")
    assert volumes.inputs["parameters"] == {"type": "gp3", "encrypted": "true"}
    assert volumes.inputs["volumeBindingMode"] == "WaitForFirstConsumer"
    assert issuer.inputs["version"] == "v1.19.1"
    assert issuer.inputs["repositoryOpts"] == {"repo": "https://charts.jetstack.io"}
    assert issuer.inputs["values"]["crds"] == {"enabled": True}
    assert not issuer.inputs.get("skipAwait")
    assert {volumes.urn, issuer.urn} <= set(made.one("Release", "repair").dependencies)
    database = release(made)["values"]["mongodb-store"]["mongodb"]
    assert database["persistence"] == {"storageClass": STORAGE_CLASS}
    assert volumes.inputs["metadata"]["name"] == STORAGE_CLASS
    assert database["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete"


def test_pods_that_need_no_gpu_run_on_system_nodes() -> None:
    made = built(action="drain")
    system = {"gpufleet.io/node-group": "system"}
    values = release(made)["values"]
    assert values["global"]["systemNodeSelector"] == system
    store = values["mongodb-store"]
    assert store["job"]["nodeSelector"] == store["mongodb"]["nodeSelector"] == system
    issuer = made.one("Release", "repair-cert-manager").inputs["values"]
    for part in (issuer, issuer["webhook"], issuer["cainjector"], issuer["startupapicheck"]):
        assert part["nodeSelector"] == system


def test_monitors_tolerate_the_taints_of_gpu_nodes_and_no_others() -> None:
    found = release(built(taint_keys=["nvidia.com/gpu", "team", "team"]))["values"]["global"]["tolerations"]
    assert found == [{"key": key, "operator": "Exists"} for key in ("nvidia.com/gpu", "team")]


def test_driver_of_the_image_is_found_and_dcgm_is_the_operators() -> None:
    values = release(built())["values"]
    assert values["labeler"] == {"assumeDriverInstalled": True}
    assert values["global"]["dcgm"]["service"]["endpoint"] == "nvidia-dcgm.gpu-operator.svc"


def test_drain_waits_for_pods_and_leaves_those_of_the_cluster() -> None:
    values = release(built(action="drain", drain_after_min=15))["values"]
    drainer = values["node-drainer"]
    assert drainer["deleteAfterTimeoutMinutes"] == 15
    assert drainer["userNamespaces"] == [{"name": "*", "mode": "DeleteAfterTimeout"}]
    kept = {"nvsentinel", "cert-manager", "gpu-operator", "kube-system", "mount-s3", NOTICES_NAMESPACE}
    assert {name for name in (*kept, "research") if re.search(drainer["systemNamespaces"], name)} == kept
    assert "node-drainer" not in release(built(action="quarantine"))["values"]
