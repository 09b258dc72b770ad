"""The fleets whose validation is measured are valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.checks import validate
from tests.bench.generate import fleet_file
from tests.bench.specs import SIZES


@pytest.mark.parametrize("groups", SIZES)
def test_measured_fleet_is_valid(tmp_path: Path, groups: int) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(fleet_file(groups), encoding="utf-8")
    sites = validate(str(path), root=tmp_path).loaded.spec.cloud
    assert sum(len(site.node_groups) for site in sites) == groups
