"""Where jobs run: the three reference scenarios, and why places are refused."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.checks import ValidFleet, validate
from gpufleet.economics.advice import Limits, PlaceAdvice, advise
from gpufleet.economics.candidates import candidates
from gpufleet.economics.job_file import load_job
from gpufleet.errors import InputError, SpecError
from tests.unit.economics.configs import CONFIGS

ROOT = Path(__file__).resolve().parents[3]
JOBS = ROOT / "docs" / "examples" / "jobs"
NOW = dt.datetime(2026, 10, 1, tzinfo=dt.UTC)
LIMITS = Limits(budget=None, runs=500, seed=0, mfu=0.4)


@pytest.fixture(scope="module")
def fleet() -> ValidFleet:
    return validate("prod", root=ROOT)


@pytest.fixture
def pretrain() -> dict[str, Any]:
    return dict(yaml.safe_load((JOBS / "pretrain-20b.yaml").read_text(encoding="utf-8")))


def places(
    fleet: ValidFleet, path: Path, gpus: Sequence[str], limits: Limits = LIMITS
) -> dict[tuple[str, str], PlaceAdvice]:
    job = load_job(path)
    found = candidates(fleet.plan, fleet.cost, fleet.catalog, job.places, gpus, NOW)
    return {
        (each.candidate.place, each.candidate.kind): each for each in advise(job, found, limits, path.parent)
    }


def written(folder: Path, document: dict[str, Any]) -> Path:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def test_scenario_a_costs_13824_usd_on_spot_without_interruptions(fleet: ValidFleet) -> None:
    """64 A100 for 72 hours at 3 USD per GPU-hour, within 15,000 USD."""
    found = places(fleet, JOBS / "pretrain-20b.yaml", ["A100"])
    spot = found["usw2/overflow", "spot"]
    assert spot.undisturbed_cost == pytest.approx(13_824.00)
    assert spot.nodes == 8
    assert spot.reasons == ()
    assert spot.cost is not None
    assert 13_824 < spot.cost.mean < 15_000
    assert spot.candidate.source == "job file"
    ranked = [each for each in found.values() if each.rank is not None]
    costs = [each.cost.mean for each in ranked if each.cost is not None]
    assert costs == sorted(costs)
    assert [each.rank for each in ranked] == list(range(1, len(ranked) + 1))
    assert any(each.candidate.added for each in ranked), "what the fleet could add is listed"


def test_scenario_b_stays_at_the_plant_within_its_power(fleet: ValidFleet, tmp_path: Path) -> None:
    found = places(fleet, JOBS / "edge.yaml", ["L4"])
    assert [place for (place, _), each in found.items() if each.rank is not None] == ["plant"]
    plant = found["plant", "on-premises"]
    assert plant.sizing is not None
    assert plant.sizing.peak is not None
    assert plant.sizing.peak.latency_s <= 0.2
    assert plant.nodes * 40 <= 400
    assert plant.per_million == pytest.approx(5 * 0.05 / (40 * 3600) * 1e6)
    document = yaml.safe_load((JOBS / "edge.yaml").read_text(encoding="utf-8"))
    document["places"][0]["power_limit"] = "200 W"
    refused = places(fleet, written(tmp_path, document), ["L4"])["plant", "on-premises"]
    assert refused.reasons == ("the peak draws 280 of 200 W",)


def test_scenario_c_scales_both_models_two_to_one(fleet: ValidFleet) -> None:
    found = places(fleet, JOBS / "captions.yaml", ["L4", "L40S"])
    group = found["use1/serve-peak", "on-demand"]
    assert group.rank is not None
    assert group.sizing is not None
    assert group.sizing.gpus_per_cell == 3
    for size in (group.sizing.low, group.sizing.usual, group.sizing.peak):
        assert size is not None
        assert size.utilization <= 0.65
        assert size.latency_s <= 2
    assert group.hourly is not None
    assert group.per_million == pytest.approx(group.hourly[1] / (30 * 3600) * 1e6)
    assert found["use1/pretrain", "capacity-block"].reasons == ("vision, language not measured on H100",)
    assert "data must stay in us-east-1" in found["usw2 + g6.48xlarge", "on-demand"].reasons


def test_tokens_and_config_give_time_and_parallelism(
    fleet: ValidFleet, tmp_path: Path, pretrain: dict[str, Any]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["Llama-3-70B"]), encoding="utf-8")
    pretrain |= {"data": {}, "training": {"gpus": 512, "config": "config.json", "tokens": "100B"}}
    pretrain.pop("budget")
    pretrain.pop("deadline")
    found = places(fleet, written(tmp_path, pretrain), [])
    racks = found["dc1", "on-premises"]
    assert racks.placement is not None
    assert racks.placement.fits
    assert racks.finish_h is not None
    assert racks.finish_h.low <= racks.finish_h.median <= racks.finish_h.high
    assert racks.candidate.node_hour == pytest.approx((91018.0425 + 571500) / 127 / 730)
    assert (
        "nothing says how often" in found["use1/explore", "spot"].reasons[0]
        or "at most" in (found["use1/explore", "spot"].reasons[0])
    )


def test_deadline_and_budget_left_refuse_places_and_unknown_prices_too(
    fleet: ValidFleet, tmp_path: Path, pretrain: dict[str, Any]
) -> None:
    path = written(tmp_path, pretrain | {"deadline": "73 h"})
    spot = places(fleet, path, ["A100"])["usw2/overflow", "spot"]
    assert "of the runs finish within 73 h; 90% must" in spot.reasons[0]
    left = Limits(budget=13_000.0, runs=200, seed=0, mfu=0.4)
    spot = places(fleet, JOBS / "pretrain-20b.yaml", ["A100"], left)["usw2/overflow", "spot"]
    assert "USD of 13,000 USD" in spot.reasons[0]
    device = {"name": "lab", "gpu": "A100", "nodes": 64, "gpu_memory": "80 GiB"}
    path = written(tmp_path, pretrain | {"data": {}, "places": [device]})
    lab = places(fleet, path, ["A100"])["lab", "on-premises"]
    assert lab.cost is None
    assert lab.reasons == ("its price is not known: the budget cannot be checked",)


def test_what_the_fleets_budget_leaves_refuses_places_that_are_paid_by_use(
    fleet: ValidFleet, tmp_path: Path, pretrain: dict[str, Any]
) -> None:
    device = {"name": "lab", "gpu": "A100", "nodes": 64, "gpu_memory": "80 GiB", "price": "90 USD/h"}
    path = written(
        tmp_path,
        {key: value for key, value in pretrain.items() if key != "budget"} | {"data": {}, "places": [device]},
    )
    left = Limits(budget=None, runs=200, seed=0, mfu=0.4, fleet_left=13_000.0)
    found = places(fleet, path, ["A100"], left)
    reported = "costs more than the 13,000 USD a month that the fleet's budget leaves"
    assert found["usw2/overflow", "spot"].reasons == (reported,)
    lab = found["lab", "on-premises"]
    assert lab.cost is not None
    assert lab.cost.mean > 13_000
    assert lab.reasons == ()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"trainning": 1}, "trainning"),
        ({"training": None}, "exactly one of training, serving is needed"),
        ({"deadline": "soon"}, "'soon' is not a duration"),
        ({"budget": "15000 EUR"}, "'EUR' is not USD"),
        ({"training": {"gpus": 0, "work": "1 h", "checkpoint": "1 s"}}, "gpus"),
        ({"training": {"gpus": 8}}, "the time of the job is `work`"),
        ({"training": {"gpus": 8, "work": "1 h"}}, "the time to write a checkpoint is missing"),
        (
            {"training": {"gpus": 8, "work": "1 h", "checkpoint": "1 s", "prices": {"sport": "3 USD/h"}}},
            "'sport' is no purchase option",
        ),
    ],
)
def test_job_file_that_does_not_hold_is_refused_with_its_line(
    tmp_path: Path, pretrain: dict[str, Any], changes: dict[str, Any], says: str
) -> None:
    document = {key: value for key, value in (pretrain | changes).items() if value is not None}
    with pytest.raises(SpecError) as caught:
        load_job(written(tmp_path, document))
    (finding, *_) = caught.value.findings
    assert says in f"{finding.field} {finding.message}"
    assert finding.line >= 1


def test_missing_job_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        load_job(tmp_path / "none.yaml")
