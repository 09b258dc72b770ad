"""Field paths, and the places they lead to."""

from __future__ import annotations

import pytest

from gpufleet.spec.paths import field_path, parse_path
from tests.unit.spec.samples import VALID, Checkout

PATHS = [
    ("cloud", 0, "node_groups", 1, "capacity"),
    ("tags", "cost-center"),
    ("cloud", 0, "node_groups", 0, "labels", "nvidia.com/gpu"),
    ("labels", 'with "quotes" and \\ and ]'),
    ("labels", ""),
    ("labels", "0"),
    (),
]


@pytest.mark.parametrize("path", PATHS)
def test_path_round_trips_as_text(path: tuple[str | int, ...]) -> None:
    assert parse_path(field_path(path)) == path


@pytest.mark.parametrize("text", ["a..b", "a[", "a[x]", ".a.", 'a["b', "a]"])
def test_invalid_path_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a field path"):
        parse_path(text)


def test_fields_have_values_and_places(checkout: Checkout) -> None:
    source = checkout.load(VALID).source
    assert source.at("cloud[0].node_groups[0].capacity") == ("stacks/demo/fleet.yaml", 15)
    assert source.value("cloud[0].node_groups[0].capacity") == {"on_demand": {"min": "1", "max": "2"}}
    assert source.value('cloud[0].node_groups[0].labels["nvidia.com/gpu"]') == "true"
    assert source.value(("onprem", 0, "nodes")) == "dgx[01-04]"
    assert source.has("onprem[0].power")


def test_missing_field_has_the_place_of_its_nearest_ancestor(checkout: Checkout) -> None:
    source = checkout.load(VALID).source
    assert source.at("cloud[0].node_groups[0].team")[1] == 13
    assert source.at("cloud[7].region")[1] == 6
    assert source.at("nothing.at.all")[1] == 1
    assert source.value("cloud[0].node_groups[0].team") is None
    assert not source.has("cloud[0].node_groups[0].team")


def test_finding_takes_place_and_value_from_its_path(checkout: Checkout) -> None:
    source = checkout.load(VALID).source
    finding = source.finding("onprem[0].nodes", rule="r", message="m", remedy="x", severity="warning")
    assert finding.to_json() == {
        "file": "stacks/demo/fleet.yaml",
        "line": 24,
        "field": "onprem[0].nodes",
        "value": "dgx[01-04]",
        "rule": "r",
        "message": "m",
        "remedy": "x",
        "severity": "warning",
    }
    assert source.finding(("onprem", 0, "bmc"), rule="r", message="m", remedy="x").field == "onprem[0].bmc"
    assert source.finding("onprem[0].nodes", rule="r", message="m", remedy="x", value=4).value == 4
