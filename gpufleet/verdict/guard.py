"""What gpufleet itself says of a change, beside the rules of the pack: none of it can be configured away.

A change is judged by its own rules and settings, so it could loosen them for itself: it is told here
what it touches of them. What the engine would refuse, and what cannot be judged at all, fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpufleet.policy.change import ChangeStep
from gpufleet.policy.rule import Enforcement, Severity
from gpufleet.spec.models import FleetSpec
from gpufleet.verdict.locate import Locator
from gpufleet.verdict.models import GuardrailChanges, LocatedViolation, OpenChangeCost, RuleResult
from gpufleet.verdict.results import STACK, name_of, status_of

GROUP = "gpufleet"
SHOWN_FILES = 5
"""Of more files below one folder, the folder is named."""

_JUDGING = (
    "policies",
    "gpufleet",
    ".gpufleet/catalog",
    "requirements",
    "requirements.txt",
    "scripts",
    "pyproject.toml",
    "Pulumi.yaml",
    ".github",
    ".gitlab-ci.yml",
)


def files_of(environment: str) -> tuple[str, ...]:
    """Files and folders of a checkout that say how a change of the environment is judged.

    They are the rules and their prices, the program that asks them and what runs it, the project file,
    which may name other plugins, and the stack's configuration, which says where it runs, whether
    storage is protected and what may be paid upfront.
    """
    return *_JUDGING, f"stacks/Pulumi.{environment}.yaml"


def loosened(before: FleetSpec | None, after: FleetSpec) -> tuple[str, ...]:
    """Fields of the fleet file that rules judge by and that differ; empty for a new environment."""
    if before is None:
        return ()
    fields: list[str] = []
    for name in sorted({*before.policies, *after.policies}):
        if before.policies.get(name) != after.policies.get(name):
            fields.append(f"policies.{name}")
    fields += [
        name
        for name in ("exemptions", "required_tags", "expires")
        if getattr(before, name) != getattr(after, name)
    ]
    fields += [
        f"budget.{name}"
        for name in type(after.budget).model_fields
        if name not in ("alerts", "notify") and getattr(before.budget, name) != getattr(after.budget, name)
    ]
    return tuple(fields)


def guard_result(guard: GuardrailChanges, locator: Locator) -> RuleResult:
    """Files and settings of the rules that the change touches: advice, since touching them is no fault."""
    found: list[LocatedViolation] = []
    for what, file in _in_short(guard.files):
        message = f"the change touches {what}, by which it is judged"
        found.append(
            LocatedViolation(STACK, STACK, message, "let the rules' owner review it", file, 1, "advisory")
        )
    for field in guard.settings:
        file, line = locator.at("", field)
        message = f"the change touches {field}, by which it is judged"
        found.append(
            LocatedViolation(STACK, STACK, message, "let the rules' owner review it", file, line, "advisory")
        )
    return _result(
        "guard-touched",
        "Changes of the rules and of their settings are seen",
        "A change is judged by its own rules, budget and exemptions: whoever loosens them passes.",
        "Nothing, if it is meant; make code owners review policies/ and the fleet files.",
        "medium",
        found,
    )


def _in_short(files: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(in words, the first file) of each file, or of each folder with many."""
    by_folder: dict[str, list[str]] = {}
    for file in files:
        by_folder.setdefault(file.partition("/")[0], []).append(file)
    for folder, inside in by_folder.items():
        if len(inside) > SHOWN_FILES:
            yield f"{len(inside)} files of {folder}/", inside[0]
        else:
            yield from ((file, file) for file in inside)


def protection_result(steps: Iterable[ChangeStep], locator: Locator) -> RuleResult:
    """Protected resources that the change deletes or replaces: the engine would refuse to."""
    found: list[LocatedViolation] = []
    for step in steps:
        # A replacement is refused where the resource stays protected, a deletion in any case.
        stays = step.after is None or step.after.options.protect
        if step.operation not in ("delete", "replace") or step.before is None:
            continue
        if not step.before.options.protect or not stays:
            continue
        forced = f" ({', '.join(step.replace_keys)})" if step.replace_keys else ""
        file, line = locator.at(step.urn)
        found.append(
            LocatedViolation(
                resource=step.urn,
                name=name_of(step.urn),
                message=f"the change would {step.operation} {name_of(step.urn)}{forced}, which is protected; "
                "`up` refuses to. Keep what forces it, or unprotect it in a change of its own",
                remedy="keep what forces it, or unprotect it in a change of its own",
                file=file,
                line=line,
                effect="mandatory",
            )
        )
    return _result(
        "protected-resources",
        "Protected resources are neither deleted nor replaced",
        "Pulumi refuses to delete what is protected, in the middle of an update.",
        "Set gpufleet:protect to false for the stack in a change of its own, apply it, then delete.",
        "critical",
        found,
    )


def open_changes_result(opens: Sequence[OpenChangeCost], locator: Locator) -> RuleResult:
    """Other open changes without a price: what they add with this one is unknown, so it does not pass."""
    file, line = locator.at("", "budget.monthly")
    found = [
        LocatedViolation(
            STACK,
            STACK,
            f"{each.name} cannot be priced: {each.reason}; repair or close it",
            "repair or close it",
            file,
            line,
            "mandatory",
            unknown=True,
        )
        for each in opens
        if each.increase is None
    ]
    return _result(
        "open-changes-priced",
        "Other open changes have a price",
        "Several changes that each fit the budget may break it together; one without a price hides how much.",
        "Mend the open change, close it, or leave it out of --open.",
        "high",
        found,
    )


def _result(
    name: str, title: str, why: str, fix: str, severity: Severity, found: Sequence[LocatedViolation]
) -> RuleResult:
    level: Enforcement = "advisory" if name == "guard-touched" else "mandatory"
    return RuleResult(
        name=name,
        group=GROUP,
        scope="change",
        title=title,
        why=why,
        fix=fix,
        severity=severity,
        enforcement=level,
        status=status_of(found),
        violations=tuple(found),
    )
