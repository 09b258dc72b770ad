"""Deleting the states of a removed cloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.engine.embedded import checkpoint
from gpufleet.engine.embedded.forget import forget_states
from gpufleet.engine.embedded.lock import StateLock, holder_of
from gpufleet.engine.errors import StateLockedError


def states(folder: Path) -> None:
    for name in ("dev", "prod"):
        for _ in range(3):
            checkpoint.save(folder / f"{name}.json", [], [], "")
        (folder / f"{name}.json.journal").write_text("")
        (folder / f"{name}.json.damaged-20260101T000000Z").write_text("")
        (folder / f"{name}.json.passphrase").write_text("secret")


def test_all_copies_of_all_states_are_deleted_and_passphrases_stay(tmp_path: Path) -> None:
    states(tmp_path)
    # Its checkpoint was lost: with the backups the next run would be refused.
    (tmp_path / "prod.json").unlink()
    assert forget_states(tmp_path) == ["dev", "prod"]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"{name}.json.{kind}" for name in ("dev", "prod") for kind in ("lock", "passphrase")}
    assert forget_states(tmp_path) == []
    assert checkpoint.load(tmp_path / "prod.json")[1] == ""


def test_nothing_is_deleted_while_a_run_uses_a_state(tmp_path: Path) -> None:
    states(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    with StateLock(tmp_path / "prod.json", "up"):
        assert "(up, since" in holder_of(tmp_path / "prod.json")
        with pytest.raises(StateLockedError, match=r"\(up, since"):
            forget_states(tmp_path)
    assert before <= {path.name for path in tmp_path.iterdir()}
    assert holder_of(tmp_path / "prod.json") == ""
    assert holder_of(tmp_path / "never.json") == ""
