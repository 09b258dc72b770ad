"""Built-in rules about a change, in addition to the policy pack. They cannot be disabled.

A change is checked by its own rules and settings and could loosen them for itself, so changes to them are
reported here. Changes that the engine would refuse or that cannot be evaluated fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpufleet.policy.change import ChangeStep
from gpufleet.policy.rule import Enforcement, Severity
from gpufleet.spec.models import FleetSpec
from gpufleet.verdict.locate import Locator
from gpufleet.verdict.models import (
    BaseVerdict,
    BaseViolation,
    GuardrailChanges,
    LocatedViolation,
    OpenChangeCost,
    RuleResult,
)
from gpufleet.verdict.results import STACK, name_of, status_of

GROUP = "gpufleet"
SHOWN_FILES = 5
"""Above this number of files below one folder, only the folder is reported."""

BY_BASE = "judged-by-base"


def settings_file(environment: str) -> str:
    """Return the file of the stack's settings: location, protection of storage, upfront payments."""
    return f"stacks/Pulumi.{environment}.yaml"


def loosened(before: FleetSpec | None, after: FleetSpec) -> tuple[str, ...]:
    """Return the changed fields of the fleet file that rules depend on, empty for a new environment."""
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
    """Report files and settings of the rules that the change touches, as advice."""
    found: list[LocatedViolation] = []
    for what, file in _in_short(guard.files):
        message = (
            f"the change touches {what}, which determines how it is checked; its code owners must approve it"
        )
        found.append(
            LocatedViolation(
                STACK, STACK, message, "ask the owner of the rules for a review", file, 1, "advisory"
            )
        )
    for field in guard.settings:
        file, line = locator.at("", field)
        message = f"the change touches {field}, which determines how it is checked"
        found.append(
            LocatedViolation(
                STACK, STACK, message, "ask the owner of the rules for a review", file, line, "advisory"
            )
        )
    return _result(
        "guard-touched",
        "Changes to rules and their settings are reported",
        "A change is checked by its own rules, budget and exemptions, so it could pass by loosening them.",
        "No action if it is intended. Require code owners' reviews for policies/ and the fleet files.",
        "medium",
        found,
    )


def _in_short(files: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (text, first file) for each file, or for each folder with many files."""
    by_folder: dict[str, list[str]] = {}
    for file in files:
        by_folder.setdefault(file.partition("/")[0], []).append(file)
    for folder, inside in by_folder.items():
        if len(inside) > SHOWN_FILES:
            yield f"{len(inside)} files of {folder}/", inside[0]
        else:
            yield from ((file, file) for file in inside)


def protection_result(steps: Iterable[ChangeStep], locator: Locator) -> RuleResult:
    """Report protected resources that the change deletes or replaces, which the engine would refuse."""
    found: list[LocatedViolation] = []
    for step in steps:
        # The engine refuses each deletion, and a replacement if the resource stays protected.
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
                "`up` refuses this. Revert the input that forces it, or unprotect the resource in a"
                " separate change",
                remedy="revert the input that forces it, or unprotect the resource in a separate change",
                file=file,
                line=line,
                effect="mandatory",
            )
        )
    return _result(
        "protected-resources",
        "Protected resources must not be deleted or replaced",
        "Pulumi refuses to delete protected resources and stops in the middle of the update.",
        "Set gpufleet:protect to false for the stack in a separate change, apply it, then delete.",
        "critical",
        found,
    )


def base_result(second: BaseVerdict, rules: Sequence[RuleResult], locator: Locator) -> RuleResult:
    """Report what the code of the base finds in the data of the change, and the change's own does not."""
    file, line = locator.at("", "environment")
    found = [
        LocatedViolation(
            each.resource,
            each.name,
            f"by the code of the base, {each.rule}: {each.message}",
            f"{each.remedy}; or change the code first, in a change of its own",
            each.file,
            each.line,
            "mandatory",
        )
        for each in _stricter(second, rules)
    ]
    if second.verdict == "none":
        message = f"the code of the base cannot judge the data of this change: {second.reason}"
        remedy = "change the code first, and the files below stacks/ in a change of their own"
        found.append(LocatedViolation(STACK, STACK, message, remedy, file, line, "mandatory", unknown=True))
    return _result(
        BY_BASE,
        "The code of the base finds nothing more in the data of the change",
        "A change that edits rules or code is checked by them, so it could pass by changing what finds it.",
        "Change the code first, and what it allows in a change of its own.",
        "high",
        found,
    )


def _stricter(second: BaseVerdict, rules: Sequence[RuleResult]) -> Iterator[BaseViolation]:
    own = {
        (rule.name, each.resource) for rule in rules for each in rule.violations if each.effect == "mandatory"
    }
    yield from (each for each in second.violations if (each.rule, each.resource) not in own)


def open_changes_result(open_changes: Sequence[OpenChangeCost], locator: Locator) -> RuleResult:
    """Report other open changes without a price: their sum with this one is unknown, so it does not pass."""
    file, line = locator.at("", "budget.monthly")
    found = [
        LocatedViolation(
            STACK,
            STACK,
            f"{each.name} cannot be priced: {each.reason}; fix or close it",
            "fix or close it",
            file,
            line,
            "mandatory",
            unknown=True,
        )
        for each in open_changes
        if each.increase is None
    ]
    return _result(
        "open-changes-priced",
        "Other open changes have a price",
        "Several changes that each fit the budget can exceed it together. The sum needs the price of each.",
        "Fix the open change, close it, or remove it from --open.",
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
