"""The data files: written, read back, and refused if invalid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.catalog import DATA, InstanceType, RegionRead, load_catalog
from gpufleet.catalog.store import INSTANCES, instances_text, read_entries
from gpufleet.errors import InputError
from gpufleet.files import write_atomically


def test_written_data_reads_back_unchanged(tmp_path: Path) -> None:
    instances = load_catalog().instances
    path = tmp_path / INSTANCES
    asked = RegionRead.model_validate({"name": "us-east-1", "date": "2026-11-21", "spot": True})
    path.write_text(instances_text(instances.values(), [asked]))
    assert {item.name: item for item in read_entries(path, InstanceType, "instances")} == dict(instances)
    assert read_entries(path, RegionRead, "read") == (asked,)


def test_shipped_file_equals_the_written_form() -> None:
    path = DATA / INSTANCES
    assert path.read_text() == instances_text(read_entries(path, InstanceType, "instances"))


def test_amounts_are_strings_and_each_source_is_written_once() -> None:
    document = json.loads(instances_text(load_catalog().instances.values()))
    texts = [(source["text"], source.get("date")) for source in document["sources"].values()]
    assert len(set(texts)) == len(texts)
    for entry in document["instances"]:
        for price in entry.get("on_demand", {}).values():
            assert price["amount"] is None or isinstance(price["amount"], str)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "no JSON"])
def test_file_that_is_not_a_catalog_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / INSTANCES).write_text(text)
    with pytest.raises(InputError, match=r"instances\.json: not a catalog file") as caught:
        load_catalog(tmp_path)
    assert "gpufleet catalog refresh" in caught.value.remedy


def test_invalid_entry_is_refused_with_its_place(tmp_path: Path) -> None:
    document = json.loads((DATA / INSTANCES).read_text())
    document["instances"][3]["vcpus"] = "many"
    (tmp_path / INSTANCES).write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"instances\.3\.vcpus"):
        load_catalog(tmp_path)


def test_missing_folder_is_not_an_override(tmp_path: Path) -> None:
    assert load_catalog(tmp_path / "none") is load_catalog()


def test_changed_override_is_read_again(tmp_path: Path) -> None:
    import os

    p5 = load_catalog().instance("p5.48xlarge")
    path = tmp_path / INSTANCES
    for number, vcpus in enumerate((100, 200)):
        write_atomically(path, instances_text([p5.model_copy(update={"vcpus": vcpus})]))
        os.utime(path, ns=(number, number))
        assert load_catalog(tmp_path).instance("p5.48xlarge").vcpus == vcpus
