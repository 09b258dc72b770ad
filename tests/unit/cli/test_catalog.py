"""`gpufleet catalog` for a user: tables, filters, ages, sources, refresh."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpufleet.catalog import InstanceType, KeyPrices, Price, RegionRead, load_catalog
from gpufleet.catalog.store import INSTANCES, instances_text, read_entries
from gpufleet.cli import catalog_refresh, catalog_shown
from gpufleet.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
TODAY = dt.date(2026, 11, 21)


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout as the working folder, on a fixed day."""
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    (tmp_path / "stacks").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setattr(catalog_shown, "today", lambda: TODAY)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["catalog", *arguments]) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(run(capsys, *arguments, "--json"))


def first_words(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.strip()]


def test_instances_are_listed_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys) == run(capsys, "instances")
    assert run(capsys, "--gpu", "H100") == run(capsys, "instances", "--gpu", "H100")


@pytest.mark.parametrize("kind", ["instances", "systems", "storage", "software", "prices"])
@pytest.mark.parametrize("width", [80, 100])
def test_table_fits_the_screen_and_truncates_no_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str, width: int
) -> None:
    words = set(run(capsys, kind).replace(",", " ").split())
    monkeypatch.setenv("COLUMNS", str(width))
    text = run(capsys, kind)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    # A table shown as lists has no heading of the first column.
    assert words - {"type", "name", "what"} <= set(text.replace(",", " ").split())


def names(capsys: pytest.CaptureFixture[str], kind: str, *arguments: str) -> set[str]:
    found = run_json(capsys, kind, *arguments)[kind]
    return {item.get("name") or item.get("channel") or item["what"] for item in found}


def test_instances_are_filtered_by_memory_price_and_text(capsys: pytest.CaptureFixture[str]) -> None:
    large = names(capsys, "instances", "--min-memory", "141")
    assert "p5e.48xlarge" in large
    assert not {"p5.48xlarge", "g6.xlarge", "m7i.xlarge"} & large
    cheap = names(capsys, "instances", "--max-price", "1")
    assert "g6.xlarge" in cheap
    assert not {"p5.48xlarge", "p6-b200.48xlarge"} & cheap
    spot = names(capsys, "instances", "--usage", "spot", "--max-price", "0.5")
    assert "g5.2xlarge" in spot
    assert "p5.48xlarge" not in spot
    assert names(capsys, "instances", "--text", "g6E", "--text", "l40s") == {
        name for name in load_catalog().instances if name.startswith("g6e.")
    }


def test_systems_prices_and_software_can_be_filtered(capsys: pytest.CaptureFixture[str]) -> None:
    assert names(capsys, "systems", "--text", "dgx", "--min-memory", "100") < names(capsys, "systems")
    assert "dgx-h100" not in names(capsys, "systems", "--max-price", "1000")
    assert names(capsys, "software", "--text", "nonsense") == set()
    cheap = run_json(capsys, "prices", "--max-price", "0.2", "--text", "lustre")["prices"]
    assert cheap
    assert all(float(each["amount"]) <= 0.2 and each["kind"] in ("lustre", "service") for each in cheap)
    deployments = {
        each["deployment"] for each in run_json(capsys, "storage", "--text", "scratch_2")["storage"]
    }
    assert deployments == {"SCRATCH_2"}


def test_every_type_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = first_words(run(capsys))
    for name in load_catalog().instances:
        assert words.count(name) == 1, name


def test_largest_gpus_come_first_and_cpu_types_last(capsys: pytest.CaptureFixture[str]) -> None:
    names = [item["name"] for item in run_json(capsys)["instances"]]
    assert names[0] == "p6-b300.48xlarge"
    without = {name for name, item in load_catalog().instances.items() if item.accelerator is None}
    assert set(names[-len(without) :]) == without


def test_filters_are_combined(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(
        capsys, "--gpu", "h100", "--region", "US-EAST-1", "--efa", "--usage", "spot", "--min-gpus", "8"
    )
    assert [item["name"] for item in found["instances"]] == ["p5.48xlarge"]
    assert found["region"] == "us-east-1"


def test_no_efa_lists_the_types_without_efa(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "--no-efa")["instances"]
    assert found
    assert all(item["max_efa_interfaces"] == 0 for item in found)


def test_empty_result_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no catalog entry" in run(capsys, "--gpu", "T4", "--min-gpus", "99")


@pytest.mark.parametrize(
    ("option", "value", "guess"),
    [
        ("--gpu", "H10", "H100"),
        ("--region", "us-esat-1", "us-east-1"),
        ("--usage", "spott", "spot"),
    ],
)
def test_unknown_filter_value_suggests_the_nearest_and_exits_2(
    capsys: pytest.CaptureFixture[str], option: str, value: str, guess: str
) -> None:
    text = run(capsys, option, value, code=2)
    assert f"{value!r}; did you mean {guess!r}?" in text
    assert "fix: use one of" in text


def test_unknown_system_gpu_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'B200'" in run(capsys, "systems", "--gpu", "B20", code=2)


def test_unknown_kind_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert "instnces" in run(capsys, "instnces", code=2)


def test_unknown_and_not_sold_are_shown_differently(capsys: pytest.CaptureFixture[str]) -> None:
    lines = {line.split()[0]: line.split() for line in run(capsys).splitlines() if line.strip()}
    assert lines["p5.48xlarge"][-4:-2] == ["20.20", "47.76"]
    assert lines["g7.2xlarge"][-4:-2] == ["unknown", "-"], "spot at an unread price, not sold in blocks"
    assert lines["p5e.48xlarge"][-4:] == ["-", "-", "-", "-"], "not offered in us-east-1"
    assert lines["g6.xlarge"][-3] == "-", "not sold in blocks"
    systems = {line.split()[0]: line.split() for line in run(capsys, "systems").splitlines() if line.strip()}
    assert systems["dgx-b200"][-5:-2] == ["515,000.00", "to", "744,793.00*"], "two sources that differ"


def test_no_price_is_shown_as_0(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("instances", "systems", "storage", "prices"):
        words = run(capsys, kind).split()
        assert not {"0", "0.0", "0.00", "0.0000"} & set(words), kind


def test_age_of_prices_is_shown_and_old_prices_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "--gpu", "H100")
    assert "69 d" in text or "64 d" in text
    assert "older than 180 days" not in text
    text = run(capsys, "--gpu", "L40S")
    assert "prices older than 180 days, the oldest " in text
    assert "gpufleet catalog refresh" in text
    assert "prices have no date" in text


def test_table_two_years_later_differs_only_in_ages_and_warnings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run(capsys, "--gpu", "B300")
    assert "warning" not in before
    monkeypatch.setattr(catalog_shown, "today", lambda: TODAY + dt.timedelta(days=730))
    after = run(capsys, "--gpu", "B300")
    assert "794 d" in after
    assert "warning" in after
    assert "142.42" in before
    assert "142.42" in after


def test_refresh_is_not_suggested_for_prices_it_cannot_read(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "systems")
    assert "warning" in text
    assert "refresh" not in text


def test_sources_are_listed_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert "aws.amazon.com" not in run(capsys, "--gpu", "H100")
    text = run(capsys, "--gpu", "H100", "--sources")
    assert "aws.amazon.com/ec2/pricing/on-demand" in text
    assert "2026-09-18" in text
    assert "not offered there" in text
    assert "SemiAnalysis" in run(capsys, "systems", "--sources")
    assert "R535 is past its end of life" in run(capsys, "software", "--sources")
    assert "600 GiB" in run(capsys, "storage", "--sources")


def test_json_has_exact_amounts_ages_and_unknowns(capsys: pytest.CaptureFixture[str]) -> None:
    prices = {
        (row["kind"], row["region"]): row for row in run_json(capsys, "prices", "--gpu", "H200")["prices"]
    }
    on_demand = next(row for row in run_json(capsys, "--gpu", "A100")["prices"] if row["kind"] == "on-demand")
    assert on_demand["amount"] == "21.957642"
    assert (on_demand["age_days"], on_demand["stale"]) == (87, False)
    assert prices[("capacity-block", "us-east-2")]["stale"] is False
    weak = [row for row in run_json(capsys, "storage")["prices"] if row["verified"] is False]
    assert {row["what"] for row in weak} == {"PERSISTENT_2-500", "PERSISTENT_2-1000"}
    nowhere = [row for row in run_json(capsys, "systems")["prices"] if row["amount"] is None]
    assert nowhere and all(row["verified"] is False for row in nowhere)


def test_prices_are_filtered_by_region_and_usage(capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_json(capsys, "prices", "--region", "us-west-2", "--usage", "spot")["prices"]
    assert {(row["kind"], row["region"]) for row in rows} == {("spot", "us-west-2")}
    assert {row["kind"] for row in run_json(capsys, "prices")["prices"]} == {
        *("on-demand", "spot", "capacity-block", "lustre", "service", "system")
    }


def test_shipped_catalog_is_listed_outside_a_checkout(
    capsys: pytest.CaptureFixture[str], checkout: Path
) -> None:
    (checkout / "Pulumi.yaml").unlink()
    assert "p5.48xlarge" in run(capsys)


def test_refreshed_catalog_is_listed(capsys: pytest.CaptureFixture[str], checkout: Path) -> None:
    write_refreshed(checkout, "12.5")
    assert "12.50" in run(capsys, "--gpu", "H100")
    assert "today" in run(capsys, "--gpu", "H100")


def write_refreshed(checkout: Path, usd: str) -> Path:
    """A refreshed catalog in which p5.48xlarge costs `usd` on demand in us-east-1."""
    p5 = load_catalog().instance("p5.48xlarge")
    price = Price(amount=Decimal(usd), unit="instance-hour", source="account ********9012", date=TODAY)
    folder = checkout / ".gpufleet" / "catalog"
    folder.mkdir(parents=True)
    asked = RegionRead(name="us-east-1", date=TODAY, spot=False)
    changed = p5.model_copy(update={"on_demand": {"us-east-1": price}})
    (folder / INSTANCES).write_text(instances_text([changed], [asked]))
    return folder / INSTANCES


def test_refresh_without_credentials_gives_a_remedy(
    capsys: pytest.CaptureFixture[str], checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(checkout / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(checkout / "none"))
    text = run(capsys, "refresh", code=2)
    assert "no AWS credentials" in text
    assert "--profile" in text
    assert "no usable AWS profile" in run(capsys, "refresh", "--profile", "absent", code=2)
    assert not (checkout / ".gpufleet").exists()


def test_refresh_never_reads_an_emulated_aws(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:5000")
    assert "emulated AWS" in run(capsys, "refresh", code=2)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    """An account with prepared responses; requests are tested with gpufleet.catalog.refresh."""
    from gpufleet.catalog import refresh

    p5 = load_catalog().instance("p5.48xlarge")
    price = Price(amount=Decimal(44), unit="instance-hour", source="account ********9012", date=TODAY)
    nat = Price(amount=Decimal("0.05"), unit="hour", source="account ********9012", date=TODAY)
    answer = p5.model_copy(
        update={
            "regions": frozenset({"us-east-1"}),
            "on_demand": {"us-east-1": price},
            "spot": {},
            "capacity_block": {},
        }
    )
    new = answer.model_copy(update={"name": "p7.48xlarge"})
    reading = refresh.RefreshResult(
        instances=(answer, new),
        regions=(load_catalog().regions["us-east-1"],),
        asked=(RegionRead(name="us-east-1", date=TODAY, spot=True),),
        services=(KeyPrices(key="nat-gateway-hour", prices={"us-east-1": nat}),),
        unanswered=("us-east-1: no Capacity Block price of p5.48xlarge: no",),
    )
    monkeypatch.setattr(catalog_refresh, "_clients", lambda _profile: (None, "us-east-1"))
    monkeypatch.setattr(refresh, "masked_account", lambda _clients, _region: "account ********9012")
    monkeypatch.setattr(refresh.Refresher, "read", lambda _self, _regions: reading)


@pytest.mark.usefixtures("account")
def test_refresh_writes_the_catalog_and_reports_the_changes(
    capsys: pytest.CaptureFixture[str], checkout: Path
) -> None:
    text = run(capsys, "refresh")
    assert "p5.48xlarge on-demand us-east-1: 55.04 -> 44 USD/h (-20.1%)" in text
    assert "p5.48xlarge spot us-east-1: 20.2037 -> unknown" in text
    assert "new: p7.48xlarge" in text
    assert "nat-gateway-hour service us-east-1: 0.045 -> 0.05 USD/h (+11.1%)" in text
    catalog = load_catalog(checkout / ".gpufleet" / "catalog")
    assert catalog.on_demand("p5.48xlarge", "us-east-1").amount == 44
    assert catalog.service_price("nat-gateway-hour", "us-east-1").amount == Decimal("0.05")
    assert catalog.service_price("nat-gateway-hour", "us-west-2").amount == Decimal("0.045")
    assert catalog.on_demand("p5.48xlarge", "us-west-2").amount == Decimal("55.04")
    assert catalog.capacity_block("p5.48xlarge", "us-east-1").amount == Decimal("47.76")
    assert "us-east-1" not in catalog.instance("p4d.24xlarge").regions, "the account did not list it"
    assert sorted(path.name for path in (checkout / ".gpufleet" / "catalog").iterdir()) == [
        "instances.json",
        "regions.json",
        "services.json",
    ]


@pytest.mark.usefixtures("account")
def test_second_refresh_changes_no_price_and_keeps_other_regions(
    capsys: pytest.CaptureFixture[str], checkout: Path
) -> None:
    path = write_refreshed(checkout, "12.5")
    west = RegionRead(name="us-west-2", date=TODAY, spot=False)
    read = read_entries(path, InstanceType, "instances")
    path.write_text(instances_text(read, [west]))
    run(capsys, "refresh")
    assert "no price changed" in run(capsys, "refresh")
    assert {item.name for item in read_entries(path, RegionRead, "read")} == {"us-east-1", "us-west-2"}


@pytest.mark.usefixtures("account")
def test_refresh_json_is_one_object_with_the_changes(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run_json(capsys, "refresh")
    assert answer["account"] == "account ********9012"
    assert answer["added"] == ["p7.48xlarge"]
    assert {"what": "p5.48xlarge", "kind": "on-demand", "region": "us-east-1", "before": "55.04",
            "unit": "instance-hour", "after": "44"} in answer["changes"]  # fmt: skip
    assert len(answer["unanswered"]) == 1
