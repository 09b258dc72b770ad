"""A minimal fleet for training passes all rules wherever its types are sold, with nothing unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.catalog import load_catalog
from tests.conftest import ROOT
from tests.previewed import preview_environment

pytestmark = pytest.mark.xdist_group("e2e")

FLEET = """\
apiVersion: gpufleet/v1
fleet: atlas
environment: prod
budget: {{ monthly: 200000 USD }}
tags: {{ team: ml-platform, cost-center: cc-4711, project: atlas }}
software: {{ channel: 2026.11 }}
cloud:
- site: one
  region: {region}
  zones: [{zones[0]}, {zones[1]}]
  network: {{ cidr: 10.40.0.0/16 }}
  scheduler: kubernetes
  node_groups:
  - name: pretrain
    instance_types: [p5.48xlarge]
    capacity: {{ on_demand: {{ min: 0, max: 2 }} }}
    zones: [{zones[0]}]
    network: efa
    workload: training
  storage:
  - name: scratch
    mount: /fsx/scratch
    lustre: {{ capacity: 24 TiB, throughput: 250 MB/s/TiB, import_from: s3://atlas-data, zone: {zones[0]} }}
"""


@pytest.mark.parametrize("region", ["us-west-2", "us-east-2", "eu-north-1", "ap-northeast-1"])
def test_kubernetes_with_p5_and_lustre_passes(region: str, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET.format(region=region, zones=load_catalog().zones(region)))
    found = preview_environment(ROOT, str(file)).found
    assert [each.message for each in found if each.level == "mandatory"] == []
