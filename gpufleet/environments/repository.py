"""A fleet repository: the user's fleet files, and the files to run, check and review them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpufleet import __version__
from gpufleet.errors import InputError
from gpufleet.spec.init import write_environment

_PACKAGE = Path(__file__).parents[1]
# Pulumi runs the same files as in a checkout of gpufleet: both call the installed package.
_PROGRAMS = ("stacks/__main__.py", "policies/__main__.py", "policies/PulumiPolicy.yaml")
_RENDERED = ("Pulumi.yaml", "README.md", "requirements.txt", ".gitignore")
_WORKFLOWS = _PACKAGE / "ci_templates" / "github"
_ENVIRONMENTS = "[dev, prod]"
# A fork of gpufleet installs and runs its own code; a fleet repository the version of its requirement.
_INSTALLED = (
    ("Install gpufleet from its lock file", "Install gpufleet"),
    (
        "run: scripts/setup\n",
        "run: python3 -m venv .venv && .venv/bin/pip install --quiet --requirement requirements.txt\n",
    ),
    (
        "run: python3 -m gpufleet.comment ",
        """run: |
          python3 -m venv "$RUNNER_TEMP/venv"
          "$RUNNER_TEMP/venv/bin/pip" install --quiet --no-deps --requirement requirements.txt
          "$RUNNER_TEMP/venv/bin/python" -m gpufleet.comment """,
    ),
)


def write_repository(
    folder: Path, fleet: str, environments: Mapping[str, tuple[str, str]]
) -> tuple[Path, ...]:
    """Write a fleet repository into the new folder `folder`, whole or not at all; return its files' paths.

    `environments` is name -> (template, text of the fleet file); the workflows check and deploy the last one.
    Raises InputError, and writes nothing, if `folder` is not empty.
    """
    refuse_used(folder)
    environment = list(environments)[-1]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
            made = Path(temporary) / "repository"
            made.mkdir()
            for name, (template, text) in environments.items():
                write_environment(made, name, template, text)
            _write(made, fleet, environment)
            written = tuple(sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file()))
            # The target is an empty folder or none: a rename replaces nothing else.
            made.rename(folder)
    except OSError as error:
        raise InputError(
            f"cannot write {folder}: {error.strerror}", remedy="use a new folder in one of your folders"
        ) from None
    return written


def refuse_used(folder: Path) -> None:
    """Raise InputError if the folder exists, unless it is empty."""
    if folder.is_symlink() or (folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))):
        raise InputError(
            f"{folder} already exists",
            remedy="use a new folder; in a fleet repository, `gpufleet init <env>` adds an environment",
        )
    if folder == Path.cwd():
        raise InputError(f"{folder} is the working folder", remedy="use a new folder in it or beside it")


def _write(root: Path, fleet: str, environment: str) -> None:
    # Not HTML; the values were validated before.
    templates = Environment(
        loader=PackageLoader("gpufleet.environments", "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701
    )
    values = {"fleet": fleet, "environment": environment, "version": __version__}
    for name in _RENDERED:
        text = templates.get_template(f"{name.removeprefix('.')}.j2").render(values)
        (root / name).write_text(text, encoding="utf-8")
    for name in _PROGRAMS:
        target = root / name
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(_PACKAGE / name, target)
    for source in sorted(path for path in _WORKFLOWS.rglob("*") if path.is_file()):
        target = root / source.relative_to(_WORKFLOWS)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_for_one(source.read_text(encoding="utf-8"), environment), encoding="utf-8")


def _for_one(workflow: str, environment: str) -> str:
    """Return the workflow for one environment instead of the template's two."""
    jobs = workflow.partition("\njobs:\n  dev:\n")
    if jobs[1]:
        _, _, last = jobs[2].partition("\n  prod:\n")
        workflow = f"{jobs[0]}\njobs:\n  prod:\n{last}".replace("    needs: dev\n", "")
    workflow = workflow.replace(_ENVIRONMENTS, f"[{environment}]").replace(
        "/requirements/     ", "/requirements.txt  "
    )
    for of_fork, ours in _INSTALLED:
        workflow = workflow.replace(of_fork, ours)
    for line in ("  prod:\n", "name: prod\n", "environment: prod\n"):
        workflow = workflow.replace(line, line.replace("prod", environment))
    return workflow
