"""Which hosts a rack in a box has, and under which addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.checks import validate
from gpufleet.errors import InputError
from gpufleet.lab.rack import rack_site
from gpufleet.lab.rack.layout import Record
from gpufleet.plan import build_plan
from gpufleet.racks.inventory import build_inventory

ROOT = Path(__file__).resolve().parents[4]
FLEET = ROOT / "gpufleet" / "lab" / "rack" / "fleet.yaml"


def load(tmp_path: Path, **changes: str):
    text = FLEET.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "fleet.yaml"
    file.write_text(text)
    validated = validate(str(file), root=ROOT)
    return validated.loaded.spec, build_plan(validated.loaded.spec, validated.catalog), validated.catalog


def test_controllers_come_first_and_hosts_match_the_inventory(tmp_path: Path) -> None:
    _, plan, catalog = load(tmp_path)
    site = rack_site(plan)

    assert [(host.name, host.ip, host.role) for host in site.hosts] == [
        ("ctl01", "10.90.0.11", "controller"),
        ("ctl02", "10.90.0.12", "controller"),
        ("login01", "10.90.0.13", "login"),
        ("dgx01", "10.90.0.14", "gpu"),
        ("dgx02", "10.90.0.15", "gpu"),
        ("dgx03", "10.90.0.16", "gpu"),
        ("dgx04", "10.90.0.17", "gpu"),
    ]
    listed = build_inventory(plan, catalog)["all"]["children"]["site_lab"]["hosts"]
    assert {host.name: host.address for host in site.hosts} == {
        name: values["ansible_host"] for name, values in listed.items()
    }
    assert site.gateway == "10.90.0.1"
    assert site.gateway not in [host.ip for host in site.hosts]


def test_declared_address_is_kept_and_not_assigned_again(tmp_path: Path) -> None:
    more = (
        "addresses: { dgx01: 10.90.0.11, ctl02: 10.90.0.200, login01: 192.0.2.7 }\n    network: 10.90.0.0/24"
    )
    _, plan, _ = load(tmp_path, **{"network: 10.90.0.0/24": more})
    found = {host.name: host.ip for host in rack_site(plan).hosts}
    assert found == {
        "ctl01": "10.90.0.12",
        "ctl02": "10.90.0.200",
        "login01": "10.90.0.13",
        "dgx01": "10.90.0.11",
        "dgx02": "10.90.0.14",
        "dgx03": "10.90.0.15",
        "dgx04": "10.90.0.16",
    }


def test_record_round_trips_through_its_file(tmp_path: Path) -> None:
    _, plan, _ = load(tmp_path)
    record = Record("id", rack_site(plan, "lab"), ("/lower",), "/repository", "/run", ("/cgroup",))
    record.write(tmp_path / "rack.json")
    assert Record.read(tmp_path / "rack.json") == record


def test_host_is_found_by_name_address_and_ip(tmp_path: Path) -> None:
    _, plan, _ = load(tmp_path)
    site = rack_site(plan)
    assert site.host("dgx02") is site.host("dgx02.lab.example.com") is site.host("10.90.0.15")
    with pytest.raises(InputError, match="no host 'dgx05'"):
        site.host("dgx05")


def test_too_small_network_is_refused_with_its_size(tmp_path: Path) -> None:
    _, plan, _ = load(tmp_path, **{"10.90.0.0/24": "10.90.0.0/28"})
    with pytest.raises(InputError, match=r"10\.90\.0\.0/28 has 16 addresses: too few for 7 hosts"):
        rack_site(plan)


def test_unknown_site_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    _, plan, _ = load(tmp_path)
    with pytest.raises(InputError, match="no rack site 'dc9'") as raised:
        rack_site(plan, "dc9")
    assert "lab" in raised.value.remedy


def test_kubernetes_rack_has_declared_member_addresses_and_a_free_virtual_one() -> None:
    from gpufleet.cli.rack import _site

    site, _ = _site(None, None, "kubernetes")
    assert [(host.name, host.ip) for host in site.hosts] == [
        ("ctl01", "10.90.0.11"),
        ("ctl02", "10.90.0.12"),
        ("ctl03", "10.90.0.13"),
        ("dgx01", "10.90.0.14"),
        ("dgx02", "10.90.0.15"),
    ]
    assert "10.90.0.10" not in {host.ip for host in site.hosts} | {site.gateway}
    assert [host.name for host in _site(None, None, "")[0].hosts][-1] == "dgx04"


def test_unknown_or_duplicate_scheduler_is_refused() -> None:
    from gpufleet.cli.rack import _site

    with pytest.raises(InputError, match="unknown scheduler 'nomad'"):
        _site(None, None, "nomad")
    with pytest.raises(InputError, match="already declares the scheduler"):
        _site(str(FLEET), None, "kubernetes")
