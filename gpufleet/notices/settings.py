"""The settings of the handler: a JSON file, made from the fleet file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal

_QUEUE = re.compile(r"https?://[^/]+/(?P<account>\d{12})/(?P<name>[\w-]{1,80})")


class SettingsError(ValueError):
    """A setting that cannot be used: value, rule and remedy."""


@dataclass(frozen=True, kw_only=True)
class HandlerSettings:
    """What the handler works on.

    `tags` are those that only this site's instances have. `checkpoint_s` is how long a signalled job may
    take, `maintenance_s` how long before a scheduled maintenance running jobs are signalled. `state` is the
    folder of its notes and audit log. A job acknowledges by its comment, or by a file in `acknowledgements`.
    `poll_s` is how long a read of an empty queue waits.
    """

    queue_url: str
    region: str
    scheduler: Literal["slurm", "kubernetes"]
    tags: Mapping[str, str]
    checkpoint_s: int = 90
    rebalance: Literal["cordon", "drain", "ignore"] = "cordon"
    maintenance_s: int = 3600
    state: Path = Path("/var/lib/gpufleet-notices")
    acknowledgements: Path | None = None
    signal_to: Literal["batch", "steps", "full"] = "batch"
    metrics_port: int = 9823
    metrics_address: str = "127.0.0.1"
    receivers: int = 2
    poll_s: int = 20

    @property
    def account(self) -> str:
        """The account of the queue, which is that of all notices in it."""
        found = _QUEUE.fullmatch(self.queue_url)
        return found["account"] if found else ""


_CHOICES = {
    "scheduler": ("slurm", "kubernetes"),
    "rebalance": ("cordon", "drain", "ignore"),
    "signal_to": ("batch", "steps", "full"),
}
_BOUNDS = {
    "checkpoint_s": (1, 86_400),
    "maintenance_s": (1, 7 * 86_400),
    "metrics_port": (0, 65_535),
    "receivers": (1, 16),
    "poll_s": (0, 20),
}


def read_settings(path: Path) -> HandlerSettings:
    """Return the settings in a file. Raises SettingsError with all that a person needs to correct it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}: write the settings there") from None
    return parse_settings(text, str(path))


def parse_settings(text: str, where: str) -> HandlerSettings:
    """Return the settings in a JSON text; `where` it is from, for messages."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"{where} is not JSON ({error}): correct it") from None
    if not isinstance(found, dict):
        raise SettingsError(f"{where} holds no object: write one with queue_url, region, scheduler and tags")
    return settings_of(found, where)


def settings_of(found: Mapping[str, Any], where: str) -> HandlerSettings:
    """Return the settings of an object; `where` it is from, for messages."""
    known = {each.name: each for each in fields(HandlerSettings)}
    for key in found:
        if key not in known:
            raise SettingsError(f"{where}: {key!r} is no setting: use one of {', '.join(known)}")
    for key, each in known.items():
        if key not in found and each.default is MISSING:
            raise SettingsError(f"{where}: {key} is missing: add it")
    if not _QUEUE.fullmatch(str(found["queue_url"])):
        raise SettingsError(
            f"{where}: queue_url is {found['queue_url']!r}, and must be the URL of an SQS queue: write"
            " https://sqs.<region>.amazonaws.com/<account>/<name>"
        )
    for key, choices in _CHOICES.items():
        if key in found and found[key] not in choices:
            raise SettingsError(f"{where}: {key} is {found[key]!r}: use one of {', '.join(choices)}")
    for key, (low, high) in _BOUNDS.items():
        value = found.get(key, low)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise SettingsError(f"{where}: {key} is {value!r}: use a whole number from {low} to {high}")
    tags = found["tags"]
    if not isinstance(tags, dict) or not tags or not all(isinstance(each, str) for each in tags.values()):
        raise SettingsError(
            f"{where}: tags is {tags!r}, and must name at least one tag of the site's instances: without it"
            " the handler would act on instances of others"
        )
    paths = {key: Path(found[key]) for key in ("state", "acknowledgements") if found.get(key) is not None}
    return HandlerSettings(**{**found, **paths})
