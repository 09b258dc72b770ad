"""`gpufleet init`: a new environment with a commented fleet file that passes all rules."""

from __future__ import annotations

import datetime as dt
import functools
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gpufleet.cli.console import emit_json, is_terminal, out, print_error
from gpufleet.errors import InputError
from gpufleet.interruption import defer_interruption
from gpufleet.workspace import find_root

if TYPE_CHECKING:
    from gpufleet.environments import Draft

Value = TypeVar("Value")


class Template(StrEnum):
    """The template of the new fleet file."""

    sandbox = "sandbox"
    cloud = "cloud"
    onprem = "onprem"
    hybrid = "hybrid"


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(init)


def init(
    environment: Annotated[str, typer.Argument(help="The name of the new environment.")],
    template: Annotated[Template | None, typer.Option(help="The template; default: hybrid.")] = None,
    fleet: Annotated[str, typer.Option(help="The name of the fleet.")] = "atlas",
    region: Annotated[
        list[str] | None,
        typer.Option(help="An AWS region, default: us-east-1. Repeat it for one site per region."),
    ] = None,
    zone: Annotated[
        list[str] | None,
        typer.Option(
            help="A zone of the region that offers the types, as named in your account; default: the first"
            " two. Can be repeated."
        ),
    ] = None,
    cloud_nodes: Annotated[
        int | None, typer.Option(help="Nodes of the training group in the first region; default: 4.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="The system in the racks; default: dgx-h100.")] = None,
    nodes: Annotated[int | None, typer.Option(help="GPU nodes in the racks; default: 31.")] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Monthly budget, such as '50000 USD'; default: the cost at maximum size."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Use the defaults without asking.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Write a new environment from a commented template.

    Creates stacks/<env>/fleet.yaml and its stack configuration, and does not overwrite existing files. On a
    terminal it asks for values without an option.
    """
    from gpufleet.environments import last_day
    from gpufleet.spec.init import check_name, refuse_existing, write_environment

    root = find_root()
    check_name("environment", environment)
    refuse_existing(root, environment)
    form = _Form(ask=not yes and not json and sys.stdin.isatty() and is_terminal(out.file))
    name = form.take("--template", template, "hybrid", "Template (sandbox, cloud, onprem, hybrid)", _template)
    expires = last_day(root, environment, dt.datetime.now(tz=dt.UTC).date())
    given = {"regions": region, "zones": zone, "cloud_nodes": cloud_nodes, "system": system, "nodes": nodes}
    draft = _draft(root, form, name, given, budget, environment=environment, fleet=fleet, expires=expires)
    with defer_interruption():
        written = write_environment(root, environment, name, draft.text)
        if json:
            emit_json({"written": [str(path) for path in written], "defaults": form.defaults})
            return
        for path in written:
            out.print(f"wrote {path.relative_to(root)}")
        if form.defaults:
            out.print(f"defaults: {shlex.join(form.defaults)}", markup=False)
        if expires:
            out.print(f"expires: {expires}, because the name is that of a temporary environment")
        if draft.assumed:
            out.print(f"no price is known for {len(draft.assumed)} resources: the file contains estimates")
        _next_steps(environment, name)


@dataclass
class _Form:
    """Reads values from options, else from questions on a terminal, else from defaults."""

    ask: bool
    defaults: list[str] = field(default_factory=list)

    def take(
        self, option: str, given: Any, default: Any, question: str, read: Callable[[Any], Value]
    ) -> Value:
        """Return `read` of the option, the answer or the default.

        If `read` raises InputError, the question is asked again.
        """
        if given is not None:
            return read(given)
        while self.ask:
            try:
                return read(typer.prompt(question, default=str(default)))
            except InputError as error:
                print_error(error)
        self.defaults += [option, str(default)]
        return read(default)


def _template(value: Any) -> str:
    from gpufleet.spec.init import check_template

    return check_template(str(value))


def _draft(
    root: Path,
    form: _Form,
    template: str,
    given: Mapping[str, Any],
    budget: str | None,
    *,
    environment: str,
    fleet: str,
    expires: dt.date | None,
) -> Draft:
    from gpufleet.catalog import load_catalog
    from gpufleet.checks import OVERRIDES
    from gpufleet.environments import Choices, draft_environment, fill
    from gpufleet.spec.quantity import Money, QuantityError

    catalog = load_catalog(root / OVERRIDES)
    choices = Choices(template)
    for item, applies, option, question in (
        ("regions", choices.has_cloud, "--region", "AWS regions, one site each"),
        ("zones", choices.has_cloud, "--zone", ""),
        ("cloud_nodes", choices.has_training, "--cloud-nodes", "Nodes for training in the first region"),
        ("system", choices.has_racks, "--system", "System in the racks"),
        ("nodes", choices.has_racks, "--nodes", "GPU nodes in the racks"),
    ):
        if item == "zones" and applies and not given[item]:
            # The catalog lists the zones of each region.
            continue
        if applies:
            default = getattr(choices, item)
            shown = ", ".join(default) if isinstance(default, tuple) else default
            choices = form.take(
                option, given[item], shown, question, functools.partial(fill, choices, catalog, item)
            )
        elif given[item] is not None and given[item] != []:
            raise InputError(
                f"the template {template} does not support {option}",
                remedy="remove it, or use --template hybrid",
            )

    def drafted(text: Any) -> Draft:
        try:
            amount = Money.parse(str(text)) if text is not None else None
        except QuantityError as error:
            raise InputError(f"--budget: {error}", remedy="write it as '50000 USD'") from None
        return draft_environment(choices, environment, fleet, catalog, budget=amount, expires=expires)

    if budget is not None:
        return drafted(budget)
    draft = drafted(None)
    question = f"Monthly budget (at maximum size the fleet costs about {draft.highest:,.0f} USD)"
    return form.take("--budget", None, draft.monthly, question, drafted)


def _next_steps(environment: str, template: str) -> None:
    cloud = "" if template == "sandbox" else " --cloud sandbox"
    steps = [
        ("validate", "", "list all findings"),
        ("plan", "", "show sites, nodes and their cost"),
        ("check", "", "check the rules on a preview without an account"),
    ]
    if template == "onprem":
        steps.append(("inventory", "", "list the hosts for `configure`"))
    else:
        steps.append(("up", cloud, "deploy to the emulated AWS on this machine"))
    out.print(f"next: read stacks/{environment}/fleet.yaml, then")
    for verb, options, why in steps:
        out.print(f"  gpufleet {verb} {environment}{options}  # {why}", soft_wrap=True)
