"""The settings file: every mistake has one message with value, rule and remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.notices.settings import SettingsError, read_settings

GOOD: dict[str, Any] = {
    "queue_url": "https://sqs.us-east-1.amazonaws.com/123456789012/atlas-dev-use1-notices",
    "region": "us-east-1",
    "scheduler": "slurm",
    "tags": {"gpufleet:fleet": "atlas"},
}


def written(folder: Path, value: Any) -> Path:
    path = folder / "settings.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_settings_have_defaults_and_the_account_of_the_queue(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path, GOOD))
    assert (found.account, found.checkpoint_s, found.rebalance) == ("123456789012", 90, "cordon")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queue_url": "atlas"}, "queue_url is 'atlas'"),
        ({"scheduler": "pbs"}, "scheduler is 'pbs': use one of slurm, kubernetes"),
        ({"checkpoint_s": 0}, "checkpoint_s is 0: use a whole number from 1 to 86400"),
        ({"checkpoint_s": True}, "checkpoint_s is True"),
        ({"receivers": 99}, "receivers is 99"),
        ({"tags": {}}, "would act on instances of others"),
        ({"tags": {"a": 1}}, "must name at least one tag"),
        ({"queue": "x"}, "'queue' is no setting"),
    ],
)
def test_mistake_has_its_message(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings(written(tmp_path, GOOD | change))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"), [("{", "is not JSON"), ("[]", "holds no object"), ('{"region": "x"}', "is missing")]
)
def test_file_that_is_no_object_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_settings(written(tmp_path, text))


def test_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="write the settings there"):
        read_settings(tmp_path / "none.json")
