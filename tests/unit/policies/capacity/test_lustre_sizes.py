"""lustre-sizes: tiers, sizes, EFA and metadata, by the same arithmetic as the fleet file's check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import LUSTRE

Ask = Callable[..., list[RuleViolation]]
RULE = "lustre-sizes"


def lustre(**props: Any) -> dict[str, Any]:
    base = {"deploymentType": "PERSISTENT_2", "perUnitStorageThroughput": 125, "storageCapacity": 2400}
    return {"type": LUSTRE, "props": {key: value for key, value in {**base, **props}.items() if value != ""}}


@pytest.mark.parametrize("gib", [1200, 2400, 4800, "4800", 240_000])
def test_sizes_that_are_sold_pass(gib: Any, ask: Ask) -> None:
    assert ask(RULE, lustre(storageCapacity=gib)) == []


@pytest.mark.parametrize("gib", [0, -2400, 1201, 3600, 1000, 38_401])
def test_sizes_between_the_steps_are_found_with_the_nearest(gib: int, ask: Ask) -> None:
    (found,) = ask(RULE, lustre(storageCapacity=gib))
    assert found.violation.prop == "storageCapacity"
    assert not found.violation.unknown


def test_efa_has_larger_steps_and_needs_metadata(ask: Ask) -> None:
    metadata = {"mode": "USER_PROVISIONED", "iops": 6000}
    efa = {"efaEnabled": True, "metadataConfiguration": metadata}
    assert ask(RULE, lustre(storageCapacity=38_400, **efa)) == []
    (found,) = ask(RULE, lustre(storageCapacity=19_200, **efa))
    assert "38400" in found.message
    assert ask(RULE, lustre(storageCapacity=19_200, perUnitStorageThroughput=250, **efa)) == []
    (found,) = ask(RULE, lustre(storageCapacity=38_400, efaEnabled=True))
    assert found.violation.prop == "metadataConfiguration"


@pytest.mark.parametrize("throughput", ["", 200, 50, 124, "fast"])
def test_unsupported_throughput_is_found(throughput: Any, ask: Ask) -> None:
    (found,) = ask(RULE, lustre(perUnitStorageThroughput=throughput))
    assert found.violation.prop == "perUnitStorageThroughput"


def test_scratch_has_a_fixed_throughput_no_efa_and_no_metadata(ask: Ask) -> None:
    scratch = {"deploymentType": "SCRATCH_2", "perUnitStorageThroughput": ""}
    assert ask(RULE, lustre(**scratch)) == []
    wrong = {"perUnitStorageThroughput": 200}, {"efaEnabled": True}, {"metadataConfiguration": {"iops": 1500}}
    for more in wrong:
        assert ask(RULE, lustre(**{**scratch, **more})) != []


@pytest.mark.parametrize("iops", [1, 1501, 9000, 204_000])
def test_unsupported_metadata_iops_are_found(iops: int, ask: Ask) -> None:
    (found,) = ask(RULE, lustre(metadataConfiguration={"iops": iops}))
    assert found.violation.prop == "metadataConfiguration.iops"


@pytest.mark.parametrize("deployment", ["", "SCRATCH_1", "persistent_2", "PERSISTENT_3"])
def test_deployment_type_missing_in_the_catalog_is_found(deployment: str, ask: Ask) -> None:
    (found,) = ask(RULE, lustre(deploymentType=deployment))
    assert found.violation.prop == "deploymentType"
    assert (deployment or "the default") in found.message


@pytest.mark.parametrize("storage", ["HDD", "INTELLIGENT_TIERING"])
def test_storage_types_without_known_sizes_are_found(storage: str, ask: Ask) -> None:
    (found,) = ask(RULE, lustre(storageType=storage))
    assert found.violation.prop == "storageType"


@pytest.mark.parametrize(
    "prop",
    ["deploymentType", "perUnitStorageThroughput", "storageCapacity", "efaEnabled", "storageType"],
)
def test_unknown_values_fail_closed(prop: str, ask: Ask) -> None:
    (found,) = ask(RULE, lustre(**{prop: UNKNOWN}))
    assert found.violation.unknown
    assert found.violation.prop == prop


def test_secret_size_stays_secret(ask: Ask) -> None:
    (found,) = ask(RULE, {**lustre(storageCapacity=3601), "secrets": ["storageCapacity"]})
    assert "3601" not in found.message
    assert "[secret]" in found.message


def test_other_fsx_types_are_ignored(ask: Ask) -> None:
    assert ask(RULE, {"type": "aws:fsx/openZfsFileSystem:OpenZfsFileSystem", "props": {}}) == []
