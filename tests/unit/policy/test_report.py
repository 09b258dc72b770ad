"""The report that a pack writes beside the protocol."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gpufleet.policy.report import found_of, read_report, write_report
from gpufleet.resources.resource import UNKNOWN, ProviderInstance, Resource, ResourceOptions
from gpufleet.resources.stack import Stack
from tests.unit.policy.samples import box, exemption, judge, small_boxes


def full() -> Resource:
    props = {
        "size": 11,
        "later": UNKNOWN,
        "password": "hunter2",
        "user": {"name": "ada", "keys": ["k3y", {"deep": "d33p"}], "later": [UNKNOWN]},
    }
    return Resource(
        type="aws:test/box:Box",
        name="box",
        urn="urn:box",
        props=props,
        inputs={"password": "hunter2", "later": UNKNOWN},
        options=ResourceOptions(True, ("tags", "a[0]"), True, ("urn:old",)),
        provider=ProviderInstance(
            "pulumi:providers:aws", "p", "urn:p", {"region": "eu-west-1", "secretKey": "s3cret"}
        ),
        parent="urn:parent",
        dependencies=("urn:a", "urn:b"),
        property_dependencies={"size": ("urn:a",)},
        secrets=frozenset({"password", "user.keys[0]", "user.keys[1].deep"}),
    )


def test_report_round_trips_with_masked_secrets_and_unknown_values(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    write_report(file, Stack([full()]), [])
    (read,) = read_report(file).stack
    assert read.props == {
        "size": 11,
        "later": UNKNOWN,
        "password": "[secret]",
        "user": {"name": "ada", "keys": ["[secret]", {"deep": "[secret]"}], "later": [UNKNOWN]},
    }
    assert read.inputs == {"password": "[secret]", "later": UNKNOWN}
    assert read.provider is not None
    assert read.provider.props == {"region": "eu-west-1"}
    for name in (
        "type",
        "name",
        "urn",
        "options",
        "parent",
        "dependencies",
        "property_dependencies",
        "secrets",
    ):
        assert getattr(read, name) == getattr(full(), name), name


def test_file_has_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    write_report(file, Stack([full()]), judge(small_boxes()).resource(full()))
    text = file.read_text(encoding="utf-8")
    for secret in ("hunter2", "k3y", "d33p", "s3cret"):
        assert secret not in text


def test_file_is_private_even_if_one_existed(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text("old")
    file.chmod(0o644)
    write_report(file, Stack([box()]), [])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_findings_round_trip_with_level_remedy_and_exemption(tmp_path: Path) -> None:
    asked = judge(small_boxes(fleet_field="cloud"), exemptions=(exemption(),))
    violations = [*asked.resource(box(size=11)), *asked.resource(box("crate", size=12))]
    write_report(tmp_path / "report.json", Stack([box()]), violations)
    exempted, counted = read_report(tmp_path / "report.json").found
    assert exempted == found_of(violations[0])
    assert (exempted.exempted, exempted.level, exempted.enforcement) == (True, "advisory", "mandatory")
    assert (counted.exempted, counted.level) == (False, "mandatory")
    assert (counted.rule, counted.prop, counted.fleet_field) == ("small-boxes", "size", "cloud")
    assert counted.remedy == "make it smaller"


def test_run_that_ends_early_has_no_report(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_report(tmp_path / "report.json")
