"""Resources that exist already are imported by id, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import pulumi_aws as aws
import pytest
from pulumi.runtime.settings import get_root_resource

from gpufleet.errors import InputError
from gpufleet.stacks.imports import FILE, take_over
from tests.unit.components.recording import Recording, record

LISTED = {"type": "aws:ec2/vpc:Vpc", "name": "atlas-prod-use1-vpc", "id": "vpc-1"}


def networks(fleet_file: Path) -> Recording:
    def program() -> None:
        take_over(fleet_file)
        aws.ec2.Vpc("atlas-prod-use1-vpc", cidr_block="10.0.0.0/16")
        aws.ec2.Vpc("other", cidr_block="10.1.0.0/16")

    try:
        return record(program)
    finally:
        # The root of all programs of this process.
        root = get_root_resource()
        if root is not None:
            root._transformations.clear()


def test_listed_resource_is_imported_by_its_id(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps([LISTED, {**LISTED, "name": "unknown"}]))
    made = networks(tmp_path / "fleet.yaml")
    assert {each.name: each.import_id for each in made} == {"atlas-prod-use1-vpc": "vpc-1", "other": ""}


def test_without_a_list_nothing_is_imported(tmp_path: Path) -> None:
    assert {each.import_id for each in networks(tmp_path / "fleet.yaml")} == {""}


@pytest.mark.parametrize("text", ["{", "[1]", '[{"type": "a"}]', '{"type": "a"}'])
def test_list_that_cannot_be_read_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(InputError, match=r"imports.json is not a list of objects with type, name and id"):
        take_over(tmp_path / "fleet.yaml")
