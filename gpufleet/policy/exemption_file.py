"""Exemptions in a separate file next to the fleet file, so that code owners can control them."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from msgspec.structs import replace
from pydantic import Field, ValidationError

from gpufleet.containment import repository_of, shown_in
from gpufleet.errors import SpecError
from gpufleet.findings import Finding
from gpufleet.spec.base import Model
from gpufleet.spec.document import read_document
from gpufleet.spec.load import LoadedFleet
from gpufleet.spec.policy import Exemption
from gpufleet.spec.source import SourceMap
from gpufleet.spec.translate import findings_of

EXEMPTIONS_FILE = "exemptions.yaml"
_FIELD = "exemptions"
_REMEDY = "write 'exemptions:' with a list, as in the fleet file, or remove the file"


class ExemptionFile(Model):
    """The content of the file."""

    exemptions: Annotated[
        tuple[Exemption, ...], Field(description="Rules that single resources may break for a time.")
    ]


def with_exemption_file(loaded: LoadedFleet, root: Path) -> LoadedFleet:
    """Return the fleet with the exemptions of the separate file, if it exists, after its own.

    Findings about them have the file and line of the separate file. Raises SpecError with all findings if the
    file is invalid.
    """
    path = loaded.path.with_name(EXEMPTIONS_FILE)
    if not os.path.lexists(path):
        return loaded
    try:
        entry, findings = read_document(path, shown_in(path, root), within=repository_of(path, root))
    except SpecError as error:
        raise SpecError([*_in_own_words(error.findings)]) from None
    source = SourceMap(entry)
    found: tuple[Exemption, ...] = ()
    try:
        found = ExemptionFile.model_validate(entry.node.plain()).exemptions
    except ValidationError as error:
        findings += findings_of(error, source, ExemptionFile)
    if any(finding.severity == "error" for finding in findings):
        raise SpecError([*_in_own_words(findings)])
    spec = loaded.spec.model_copy(update={_FIELD: (*loaded.spec.exemptions, *found)})
    return replace(loaded, spec=spec, source=loaded.source.with_items(_FIELD, source))


def _in_own_words(findings: Iterable[Finding]) -> Iterable[Finding]:
    for finding in findings:
        whole = finding.rule in ("file-empty", "not-a-mapping")
        yield replace(
            finding,
            message=finding.message.replace("a fleet file", "a file of exemptions"),
            remedy=_REMEDY if whole else finding.remedy.replace("a fleet file", "a file of exemptions"),
        )
