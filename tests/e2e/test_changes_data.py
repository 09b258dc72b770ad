"""Storage is deleted only with the flag, and nothing changes before a refusal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.inventory import list_resources
from tests.e2e.place import Place

pytestmark = pytest.mark.xdist_group("e2e-faults")

DATA = {"name": "data", "bucket": {"name": "flt-test-data"}}
SCRATCH = {"name": "scratch", "lustre": {"deployment": "scratch-2", "capacity": "2400 GiB"}}
STORED = {"cloud[near].storage[data]": DATA, "cloud[near].storage[scratch]": SCRATCH}
TAGGED = {"tags.project": "titan"}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("data"))
    made.write(STORED)
    made.up()
    yield made
    made.checkout.run("sandbox", "stop")


def in_cloud(place: Place) -> set[str]:
    endpoint = daemon.ensure(place.checkout.root / ".gpufleet" / "sandbox")
    return {str(each) for each in list_resources(endpoint, regions=("us-east-1",))}


def test_up_refuses_to_delete_storage_before_any_other_change(stored: Place) -> None:
    state, cloud = stored.state(), in_cloud(stored)
    stored.write({"cloud[near].storage[scratch]": SCRATCH, **TAGGED})
    reported = stored.up(code=1)
    assert "flt-test-near-data (s3.Bucket, deleted)" in reported["error"]
    assert "--allow-data-loss" in reported["remedy"]
    assert (stored.state(), in_cloud(stored)) == (state, cloud)


def test_up_refuses_to_replace_storage_with_an_empty_one(stored: Place) -> None:
    state, cloud = stored.state(), in_cloud(stored)
    smaller = {**SCRATCH, "lustre": {**SCRATCH["lustre"], "capacity": "1200 GiB"}}  # type: ignore[dict-item]
    stored.write({**STORED, **TAGGED, "cloud[near].storage[scratch]": smaller})
    reported = stored.up(code=1)
    assert (
        "flt-test-near-scratch (fsx.LustreFileSystem, replaced because of storageCapacity)"
        in reported["error"]
    )
    assert (stored.state(), in_cloud(stored)) == (state, cloud)


def test_change_that_keeps_storage_needs_no_flag(stored: Place) -> None:
    stored.write({**STORED, **TAGGED})
    assert stored.up()["changes"]["update"] > 0


def test_storage_is_deleted_with_the_flag(stored: Place) -> None:
    stored.write({"cloud[near].storage[scratch]": SCRATCH, **TAGGED})
    assert stored.up("--allow-data-loss")["changes"]["delete"] > 0
    assert "flt-test-data" not in " ".join(in_cloud(stored))


def test_destroy_deletes_storage_only_with_the_flag(stored: Place) -> None:
    state = stored.state()
    reported = stored.checkout.json("destroy", "test", "--engine", "embedded", "--yes", code=1)
    assert "1 x fsx.LustreFileSystem" in reported["error"]
    assert stored.state() == state
    done = stored.checkout.json("destroy", "test", "--engine", "embedded", "--yes", "--allow-data-loss")
    assert done["ok"]
    assert in_cloud(stored) == set()
