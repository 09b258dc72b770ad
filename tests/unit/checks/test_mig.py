"""MIG layouts of a fleet file: refused if the GPU cannot hold them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import Judge

SITE = "onprem.0"


def entry(profiles: dict[str, int], nodes: str = "dgx[001-004]", **more: Any) -> dict[str, Any]:
    return {"nodes": nodes, "profiles": profiles} | more


def test_layouts_that_fit_pass(judge: Judge) -> None:
    layouts = [
        entry({"1g.10gb": 7}, gpus=[0, 1]),
        entry({"4g.40gb": 1, "3g.40gb": 1}, gpus=[2]),
        entry({"3g.40gb": 2}, nodes="dgx005"),
    ]
    assert judge({f"{SITE}.mig": layouts}).rules == set()
    assert judge({f"{SITE}.mig": []}).rules == set()


def test_unknown_profile_is_refused_with_the_nearest(judge: Judge) -> None:
    finding = judge({f"{SITE}.mig": [entry({"1g.12gb": 7})]}).only("mig-gpu")
    assert "H100 has no MIG profile '1g.12gb'" in finding.message
    assert "1g.10gb" in finding.remedy
    # It is one of another GPU.
    changes = {f"{SITE}.mig": [entry({"1g.12gb": 7})], f"{SITE}.system": "dgx-b200"}
    assert "B200 has no MIG profile" in judge(changes).only("mig-gpu").message


def test_layout_of_an_unknown_system_is_not_judged(judge: Judge) -> None:
    layouts = [entry({"1g.10gb": 7}, gpus=[8])]
    assert judge({f"{SITE}.mig": layouts, f"{SITE}.system": "dgx-z9"}).rules == {"system-known"}
    assert judge().rules == set()


def test_gpu_without_documented_mig_support_is_refused(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufleet.checks.mig.mig_of", lambda gpu: ())
    layouts = [entry({"1g.10gb": 7}), entry({"3g.40gb": 2}, "dgx008")]
    for some in (layouts, layouts[:1]):
        finding = judge({f"{SITE}.mig": some}).only("mig-gpu")
        assert "MIG support of H100 in dgx-h100" in finding.message


@pytest.mark.parametrize(
    ("profiles", "remedy"),
    [
        ({"3g.40gb": 3}, "at most 2 of 3g.40gb"),
        ({"4g.40gb": 2}, "at most 1 of 4g.40gb"),
        ({"3g.40gb": 2, "1g.10gb": 1}, "fewer or smaller"),
        ({"7g.80gb": 1, "1g.10gb": 1}, "fewer or smaller"),
    ],
)
def test_layout_larger_than_one_gpu_is_refused(judge: Judge, profiles: dict[str, int], remedy: str) -> None:
    finding = judge({f"{SITE}.mig": [entry(profiles)]}).only("mig-fits")
    assert finding.field == "onprem[0].mig[0].profiles" and remedy in finding.remedy


def test_profiles_of_two_memory_sizes_cannot_be_mixed(judge: Judge) -> None:
    changes = {f"{SITE}.system": "dgx-a100", f"{SITE}.mig": [entry({"1g.5gb": 1, "3g.40gb": 1})]}
    reported = judge(changes)
    assert [finding.rule for finding in reported.of("mig-fits")] == ["mig-fits"]


@pytest.mark.parametrize(
    ("layouts", "field", "message"),
    [
        ([entry({"1g.10gb": 7}, nodes="dgx[007-009]")], "mig[0].nodes", "not GPU nodes of site"),
        ([entry({"1g.10gb": 7}, gpus=[8])], "mig[0].gpus[0]", "GPUs 0 to 7"),
        ([entry({"1g.10gb": 7}, gpus=[1, 1])], "mig[0].gpus[1]", "listed twice"),
        (
            [entry({"1g.10gb": 7}), entry({"3g.40gb": 2}, nodes="dgx[004-005]", gpus=[3])],
            "mig[1].nodes",
            "dgx004 are also in entry 1",
        ),
    ],
)
def test_gpu_belongs_to_the_site_and_has_one_layout(
    judge: Judge, layouts: list[dict[str, Any]], field: str, message: str
) -> None:
    finding = judge({f"{SITE}.mig": layouts}).only("mig-nodes")
    assert finding.field == f"onprem[0].{field}" and message in finding.message


def test_layout_without_instances_is_refused(judge: Judge) -> None:
    assert judge({f"{SITE}.mig": [entry({})]}).only("mig-fits").remedy.startswith("list profiles")
