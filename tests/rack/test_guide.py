"""The commands of docs/guide/rack.md on the default rack, as printed, up to a job of its user."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Checkout
from tests.rack.lab import FLEET, ROOT, need_no_disk, share_cache

GUIDE = ROOT / "docs/guide/rack.md"
KIT = "tests/rack/kit"


def printed() -> list[str]:
    """The commands of the guide's section on Ansible, without their comments."""
    section = GUIDE.read_text().partition("## Ansible on it\n")[2]
    block = section.partition("\n\n")[2] if section.startswith("\n\n") else section.lstrip("\n")
    lines = textwrap.dedent(block.partition("\n\n")[0]).splitlines()
    return [line.partition(" # ")[0] for line in lines]


@pytest.fixture
def rack_checkout(can_hold_racks: None, checkout: Checkout) -> Iterator[Checkout]:
    """A checkout with the default rack's fleet file, the kit, and the cache of this one."""
    root = checkout.root
    for path in (FLEET.relative_to(ROOT), KIT):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / FLEET.relative_to(ROOT)).write_text(FLEET.read_text())
    (root / KIT).symlink_to(ROOT / KIT)
    share_cache(checkout)
    need_no_disk(root)
    yield checkout
    checkout.run("rack", "down")


def test_commands_of_the_guide_lead_from_nothing_to_a_job_of_the_default_user(
    rack_checkout: Checkout,
) -> None:
    commands = printed()
    assert commands[0] == "gpufleet rack up" and "srun" in commands[-1]
    script = "\n".join(f"echo '# {number}'\n{command}" for number, command in enumerate(commands))
    done = subprocess.run(
        ["bash", "-euc", script],
        # The first run that changes hosts asks.
        input="y\n",
        cwd=rack_checkout.root,
        env=os.environ | rack_checkout.env | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    parts = done.stdout.split("# ")[1:]
    up, configured, job = parts[0], parts[-2], parts[-1]
    # `rack up` prints what follows, `configure` the job.
    shown = [line.strip() for line in up.partition("next:\n")[2].splitlines()]
    assert shown[:2] + shown[3:] == commands[1:3] + commands[4:]
    assert shown[2].startswith("gpufleet configure ") and shown[2].split(" --")[0] in commands[3]
    command = commands[-1].partition(" srun ")[2]
    assert f"lab: a first job, as ada on login01: srun {command}\n" in configured
    assert sorted(job.split()[1:]) == ["dgx01", "dgx02"]
    assert "failed socket" not in configured and "DIMM" not in configured
