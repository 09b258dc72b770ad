"""Expectations: those of a plan survive the file in which a run takes them along."""

from __future__ import annotations

import stat

from gpufleet.racks.preflight import expectations_for
from gpufleet.racks.preflight.expectations import read_expectations, write_expectations
from tests.unit.racks.conftest import fleet, hosts, rack


def test_expectations_round_trip_and_are_private(catalog, tmp_path):
    expected = expectations_for(fleet(rack(hosts=hosts(gpus=2))), catalog)
    path = tmp_path / "folder" / "expectations.json"
    write_expectations(expected, path)
    assert read_expectations(path) == expected
    assert {item.gpu_node for item in expected.values()} == {True, False}
    assert any(item.gpu_device_ids for item in expected.values())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
