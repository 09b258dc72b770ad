"""Policy packs for the scenario tests, written with the SDK as a user would."""

from __future__ import annotations

import textwrap
from pathlib import Path

PREAMBLE = """
import os, sys
from pulumi_policy import (
    EnforcementLevel, PolicyConfigSchema, PolicyPack, ResourceValidationPolicy, Severity,
    StackValidationPolicy,
)

def rule(name, check, level=EnforcementLevel.MANDATORY, remediate=None, **more):
    return ResourceValidationPolicy(name, f"{name} says", check, enforcement_level=level,
                                    remediate=remediate, **more)

def stack_rule(name, check, level=EnforcementLevel.MANDATORY, **more):
    return StackValidationPolicy(name, f"{name} says", check, enforcement_level=level, **more)

def boxes(args):
    return [r for r in args.resources if r.resource_type.startswith("box:")]
"""

# A resource policy, a stack policy and a remediation, enough for most tests.
STANDARD = """
def too_big(args, report):
    if args.resource_type == "box:index:Box" and args.props.get("size", 0) > 5:
        report(f"size {args.props['size']} is above 5")

def too_many(args, report):
    if len(boxes(args)) > 3:
        report(f"{len(boxes(args))} boxes are above 3")

PolicyPack("standard", [rule("small", too_big), stack_rule("few", too_many)])
"""


def write_pack(folder: Path, code: str, project: str = 'runtime: python\nversion: "1.2.3"\n') -> Path:
    """Write a pack into `folder`; the SDK's names and `rule`, `stack_rule`, `boxes` are at hand."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "PulumiPolicy.yaml").write_text(project)
    (folder / "__main__.py").write_text(PREAMBLE + textwrap.dedent(code))
    return folder
