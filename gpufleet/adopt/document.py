"""The fleet file of what was found, with every remark as a comment, and the list of imports."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML

from gpufleet.adopt.remarks import AdoptedSite, Remark
from gpufleet.plan.models import CloudSitePlan

_WIDTH = 110


def fleet_document(
    fleet: str,
    environment: str,
    cloud: Sequence[AdoptedSite],
    onprem: Sequence[AdoptedSite],
    *,
    budget: str,
    tags: Mapping[str, str],
    channel: str,
    others: Iterable[Remark] = (),
) -> str:
    """Return the text of the fleet file. Sites keep their order."""
    sites = {"cloud": [site.fields for site in cloud], "onprem": [site.fields for site in onprem]}
    whole: dict[str, Any] = {
        "apiVersion": "gpufleet/v1",
        "fleet": fleet,
        "environment": environment,
        "budget": {"monthly": budget},
        "tags": dict(tags),
        **{name: found for name, found in sites.items() if found},
        "software": {"channel": channel},
    }
    writer = YAML()
    writer.width = _WIDTH
    writer.default_flow_style = False
    writer.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    writer.dump(whole, text)
    lines = ["# Written by `gpufleet adopt` from what exists. Nothing was changed. What differs from it:"]
    remarks = [(site.name, each) for site in (*cloud, *onprem) for each in site.remarks]
    remarks += [("", each) for each in others]
    lines += [
        f"# - {f'{site}: ' if site else ''}{each.subject}: {each.text}".replace("\n", " ")
        for site, each in remarks
    ]
    if not remarks:
        lines.append("# nothing that a fleet file describes.")
    return "\n".join(lines) + "\n" + text.getvalue()


def imports_document(sites: Iterable[AdoptedSite]) -> str:
    """Return the resources that the stack takes over instead of creating them (stacks/imports.py)."""
    found = [{"type": each.type, "name": each.name, "id": each.id} for site in sites for each in site.imports]
    return json.dumps(found, indent=2) + "\n"


def tagging_script(sites: Iterable[AdoptedSite], planned: Iterable[CloudSitePlan]) -> str:
    """Return commands of the AWS CLI that give imports the tags of the stack: an import needs equal ones."""
    lines = [
        "#!/bin/sh",
        "# Gives what imports.json lists the tags of the fleet. Review it, run it, then run `up`.",
    ]
    for site, plan in zip(sites, planned, strict=True):
        for each in site.imports:
            tags = {**plan.tags, **each.tags, "Name": each.name}
            words = ["aws", "ec2", "create-tags", "--region", plan.region, "--resources", each.id, "--tags"]
            lines.append(shlex.join([*words, *(f"Key={key},Value={value}" for key, value in tags.items())]))
    return "\n".join(lines) + "\n"
