"""What a fleet file cannot say of what exists, or says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec


class Remark(msgspec.Struct, frozen=True):
    """`subject` is what it is about, `text` what there is and what the fleet makes or needs."""

    subject: str
    text: str


class Import(msgspec.Struct, frozen=True):
    """A resource that the stack can take over: Pulumi's type, the name in the stack, the id in AWS.

    `tags` are those that it gets in the stack beside the site's and its name.
    """

    type: str
    name: str
    id: str
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)


@dataclass(slots=True)
class AdoptedSite:
    """A site as a mapping of the fleet file, with remarks. `name` is the site's."""

    name: str
    fields: dict[str, Any]
    remarks: list[Remark] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    tags: Mapping[str, str] = field(default_factory=dict)

    def remark(self, subject: str, text: str) -> None:
        """Add a remark."""
        self.remarks.append(Remark(subject, text))
