"""`gpufleet tco`: purchase options, ranges, plots, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gpufleet.cli.main import main

TCO = ("tco", "--gpus", "1024", "--system", "dgx-h100", "--years", "5", "--utilization", "70%")


@pytest.fixture(autouse=True)
def outside_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(list(words)) == code
    captured = capsys.readouterr()
    return " ".join(captured.err.split()) if code else captured.out


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(run(capsys, *words, "--json"))


def test_tco_gives_both_totals_and_break_even(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(
        capsys, *TCO, "--power-per-gpu", "0.7 kW", "--pue", "1.2", "--energy-price", "0.08 USD/kWh",
        "--acquisition", "240000 USD", "--cloud-price", "3 USD/h",
    )  # fmt: skip
    assert round(found["onprem"]["energy"]) == 2_109_800
    assert found["onprem"]["total"] == pytest.approx(32_829_800, abs=1)
    assert found["cloud"]["total"] == pytest.approx(1024 * 8760 * 5 * 0.7 * 3)
    assert 0 < found["break_even_utilization"] < 0.7
    assert 0 < found["break_even_month"] < 60


def test_tco_lists_what_was_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    names = [item["name"] for item in run_json(capsys, *TCO)["assumptions"]]
    assert names == [
        "cloud price", "acquisition", "power", "PUE", "energy price",
        "network", "support", "colocation", "staff", "ranges",
    ]  # fmt: skip


def test_spot_share_lowers_the_price_by_its_share_and_has_a_range(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*TCO, "--region", "us-west-2")
    plain, mixed = (
        run_json(capsys, *words),
        run_json(capsys, *words, "--spot", "30%", "--spot-overhead", "10%"),
    )
    hours = plain["gpu_hours"]
    assert plain["cloud"]["total"] == pytest.approx(6.88 * hours)
    assert mixed["cloud"]["total"] == pytest.approx((6.88 * 0.7 + 12.9756 / 8 * 1.1 * 0.3) * hours, rel=1e-6)
    price = next(item for item in mixed["sensitivity"] if item["input"] == "cloud_price")
    assert price["low"] < mixed["cloud"]["total"] / hours < price["high"]
    assert {item["name"] for item in mixed["assumptions"]} >= {"cloud price", "spot price"}
    assert not any(item["name"] == "spot overhead" for item in mixed["assumptions"])


def test_reserved_share_is_paid_used_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*TCO[:-1], "20%", "--reserved", "50%", "--cloud-price", "7 USD/h")
    given = run_json(capsys, *words, "--reserved-price", "4 USD/h")
    assert given["cloud"]["total"] == pytest.approx(1024 * 8760 * 5 * 0.5 * 4)
    listed = run_json(capsys, *words, "--instance-type", "g6e.48xlarge", "--reserved-term", "3y")
    assert listed["cloud"]["total"] == pytest.approx(1024 * 8760 * 5 * 0.5 * 13.01667 / 8, rel=1e-6)
    (source,) = [item for item in listed["assumptions"] if item["name"] == "reserved price"]
    assert "2025-05-28" in source["source"]


def test_bands_and_tornado_belong_to_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, *TCO, "--draws", "500", "--seed", "3")
    risk = found["risk"]
    assert (risk["draws"], risk["seed"]) == (500, 3)
    assert risk["cloud"]["p5"] < found["cloud"]["total"] < risk["cloud"]["p95"]
    assert risk["months"][0]["month"] == 0
    assert risk["months"][-1]["month"] == 60
    assert risk["months"][-1]["cloud"] == risk["cloud"]
    assert found["sensitivity"][0]["input"] in {"utilization", "cloud_price", "acquisition"}
    assert run_json(capsys, *TCO, "--draws", "500", "--seed", "3")["risk"] == risk


def test_racks_of_an_environment_are_compared_with_its_fleet_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fleet = str(Path(__file__).resolve().parents[3] / "stacks" / "prod" / "fleet.yaml")
    found = run_json(capsys, "tco", "--env", fleet, "--utilization", "70%")
    assert (found["gpus"], found["system"], found["years"]) == (127 * 8, "dgx-h100", 5.0)
    assert found["onprem"]["acquisition"] == pytest.approx(571_500 * 60, rel=1e-6)
    taken = {item["name"] for item in found["assumptions"] if item["source"] == "fleet file, site dc1"}
    assert taken == {"GPUs", "years", "PUE", "energy price", "acquisition"}
    running = tmp_path / "fleet.yaml"
    costs = "    running_costs: { colocation: 42000 USD, staff: 25000 USD }\n    ownership: {"
    running.write_text(
        Path(fleet).read_text().replace("    ownership: {", costs, 1).replace("../base", "base")
    )
    (tmp_path / "base.yaml").write_text((Path(fleet).parents[1] / "base.yaml").read_text())
    counted = run_json(capsys, "tco", "--env", str(running), "--utilization", "70%", "--staff", "1 USD")
    assert counted["onprem"]["colocation"] == 5 * 12 * 42_000
    assert counted["onprem"]["staff"] == 5
    for words, says in (
        (("--gpus", "8"), "--env has the GPUs and the system"),
        (("--site", "dc9"), "dc9 is not one site with racks"),
    ):
        assert says in run(capsys, "tco", "--env", fleet, "--utilization", "70%", *words, code=2)
    assert "--gpus, --system and --years" in run(capsys, "tco", "--utilization", "70%", code=2)


def test_plots_are_written_and_the_same_in_each_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = run_json(capsys, *TCO, "--draws", "200", "--plots", "first/plots")
    names = [Path(each).name for each in found["files"]]
    assert names == ["break-even.svg", "tornado.svg", "bands.svg"]
    run(capsys, *TCO, "--draws", "200", "--plots", "again")
    for name in names:
        content = (tmp_path / "first" / "plots" / name).read_bytes()
        assert content == (tmp_path / "again" / name).read_bytes()
        root = ElementTree.fromstring(content)
        text = " ".join("".join(root.itertext()).split())
        assert "million USD" in text
    run(capsys, *TCO, "--draws", "200", "--plots", "png", "--plot-format", "png")
    assert (tmp_path / "png" / "bands.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--savings-plan", "1y"), "the catalog does not have their rates, which AWS publishes"),
        (("--reserved", "50%"), "no reserved price of p5.48xlarge in us-east-1, 1y, upfront none is known"),
        (
            ("--reserved", "50%", "--reserved-term", "3y"),
            "is of 2025-05-28, when on-demand was 98.32 USD/h; it is 55.04 now",
        ),
        (("--reserved-price", "4 USD/h"), "--reserved-price needs the share that is reserved"),
        (("--reserved", "50%", "--reserved-term", "2y"), "--reserved-term: unknown value '2y'"),
        (
            ("--spot", "50%", "--instance-type", "p6-b300.48xlarge", "--region", "eu-west-1"),
            "no spot price of",
        ),
        (("--spot", "150%"), "'150%' is not a share from 0 to 1"),
        (("--spread", "0%"), "a spread of 0 is not above 0 and below 1"),
        (("--draws", "0"), "0 draws"),
        (("--plot-format", "gif"), "--plot-format: unknown value 'gif'"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    assert says in run(capsys, *TCO, *words, "--plots", "plots", code=2)
    assert not (tmp_path / "plots").exists(), "nothing is written"


def test_total_below_its_range_is_named_as_that_of_the_lowest_price(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "owned, lowest price" in run(capsys, *TCO)
    given = run(capsys, *TCO, "--acquisition", "300000 USD")
    assert "\nowned " in given and "lowest price" not in given
