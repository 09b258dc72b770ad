"""Snapshots of etcd restored by the role's program, with real etcd as one member and as three."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.kube.members import FILES, PATH, Kubelet, Member, make_members

pytestmark = pytest.mark.xdist_group("kube")
NAMES = ("ctl01", "ctl02", "ctl03")
STEPS = ("stop", "exchange", "start", "wait", "serve", "end")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Member]]:
    """Three members that run. Tests write keys of their own."""
    members = make_members(tmp_path_factory.mktemp("members"), NAMES)
    kubelet = Kubelet(members)
    kubelet.start()
    yield members
    kubelet.stop()


def restore(members: list[Member], snapshot: Path, *words: str) -> list[Any]:
    """All steps, each by all members before the next; what the last one said."""
    with ThreadPoolExecutor(len(members)) as pool:
        answers = list(pool.map(lambda member: member.restore("check", str(snapshot), *words), members))
        order = json.dumps(members[0].restore("order", stdin=json.dumps(answers)))
        list(pool.map(lambda member: member.restore("prepare", str(snapshot), stdin=order), members))
        for step in STEPS:
            said = list(pool.map(lambda member, step=step: member.restore(step), members))
    return said


def test_three_members_come_back_with_what_the_snapshot_has_and_no_revision_twice(
    cluster: list[Member], tmp_path: Path
) -> None:
    first = cluster[0]
    first.put(kept="before", gone="before")
    snapshot = first.take(tmp_path / "backups")
    first.put(kept="after", late="after")
    first.etcdctl("del", "gone")
    before = first.revision
    said = restore(cluster, snapshot, "--discard-newer")
    for member, answer in zip(cluster, said, strict=True):
        assert {"kept": "before", "gone": "before"}.items() <= member.values().items()
        assert "late" not in member.values()
        listed = json.loads(member.etcdctl("member", "list", "--write-out=json"))["members"]
        assert sorted(item["name"] for item in listed) == list(NAMES)
        (former,) = answer["kept"]
        assert (Path(former) / "member" / "snap" / "db").is_file()
        assert not [path for path in member.data.iterdir() if "restoring" in path.name]
    (asked,) = {" ".join(line.split()[-2:]) for member in cluster for line in member.called("snapshot restore")}
    bump, compacted = asked.split()
    assert compacted == "--mark-compacted"
    assert int(bump.removeprefix("--bump-revision=")) > before
    # A second time it would be lower than after the first, if it were raised by the same.
    answers = [member.restore("check", str(snapshot), "--discard-newer") for member in cluster]
    for answer in answers:
        answer["revision"] = 5_000_000_000
    again = cluster[0].restore("order", stdin=json.dumps(answers))
    assert again["bump"] + answers[0]["snapshot_revision"] > 5_000_000_000
    assert again["id"] != cluster[0].restore("end")["kept"][0].rpartition("-restore-")[2]
