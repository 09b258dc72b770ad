"""A policy pack on disk: its PulumiPolicy.yaml, its Python interpreter, and its configuration file.

As in the Pulumi CLI the pack runs in its own folder, from its `__main__.py`; without one, `main` is the path
of the program. Without the option `virtualenv` it runs in this interpreter, which has the SDK.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from gpufleet.engine.api import StackRequest
from gpufleet.engine.embedded.engine_service import PROTOCOL_VERSION, in_range
from gpufleet.engine.errors import UnsupportedError
from gpufleet.engine.policy_config import PolicySetting, check_policy_config, read_policy_config
from gpufleet.engine.project_file import read_project_file
from gpufleet.errors import InputError

PROJECT_FILE = "PulumiPolicy.yaml"


class PackProject(Struct, frozen=True):
    """One pack, ready to start. `config_file` is None if the request has none."""

    folder: Path
    program: Path
    python: Path
    version: str = ""
    description: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    config_file: Path | None = None
    settings: Mapping[str, PolicySetting] = field(default_factory=dict)


def load_packs(request: StackRequest) -> tuple[PackProject, ...]:
    """Return the packs of a request, in its order. Raises `InputError` for an invalid pack."""
    files = check_policy_config(request)
    return tuple(_load(folder, files.get(folder.resolve())) for folder in request.policy_packs)


def _load(folder: Path, config_file: Path | None) -> PackProject:
    # Read at the path of the request: the folder may be a link out of the repository.
    project = _read_pack(folder / PROJECT_FILE)
    folder = folder.resolve()
    file = folder / PROJECT_FILE
    python, env = _interpreter(folder, file, project)
    wanted = str(project.get("requiredPulumiVersion") or "")
    if wanted and not in_range(PROTOCOL_VERSION, wanted):
        version = ".".join(map(str, PROTOCOL_VERSION))
        raise InputError(
            f"{file}: the pack requires Pulumi {wanted}, and this engine implements {version}",
            remedy="use --engine pulumi with such a CLI, or widen requiredPulumiVersion",
        )
    return PackProject(
        folder=folder,
        program=_program(folder, file, project),
        python=python,
        version=_text(file, project, "version"),
        description=_text(file, project, "description"),
        env=env,
        config_file=config_file,
        settings=read_policy_config(config_file) if config_file is not None else {},
    )


def _read_pack(file: Path) -> dict[str, Any]:
    if not os.path.lexists(file):
        raise InputError(
            f"{file}: the policy pack cannot be read: the file does not exist",
            remedy=f"a policy pack is a folder with a {PROJECT_FILE} and a __main__.py",
        )
    project = read_project_file(file, remedy="write `runtime: python`")
    if not project.get("runtime"):
        raise InputError(f"{file}: the key 'runtime' is missing", remedy="write `runtime: python`")
    return project


def _interpreter(folder: Path, file: Path, project: Mapping[str, Any]) -> tuple[Path, dict[str, str]]:
    runtime = project["runtime"]
    name = runtime.get("name") if isinstance(runtime, dict) else runtime
    if name != "python":
        raise UnsupportedError(f"{file}: the policy pack's runtime is '{name}'")
    options = (runtime.get("options") or {}) if isinstance(runtime, dict) else {}
    toolchain = options.get("toolchain") or "pip"
    if toolchain != "pip":
        raise UnsupportedError(f"{file}: the policy pack uses the toolchain '{toolchain}'")
    if not options.get("virtualenv"):
        return Path(sys.executable), {}
    virtualenv = folder / str(options["virtualenv"])
    python = virtualenv / "bin" / "python"
    if not python.is_file():
        raise InputError(
            f"{file}: the option virtualenv is '{options['virtualenv']}', and there is no {python}",
            remedy=f"create it (`python -m venv {virtualenv}`) and install the pack's requirements in it",
        )
    return python, {"VIRTUAL_ENV": str(virtualenv)}


def _program(folder: Path, file: Path, project: Mapping[str, Any]) -> Path:
    main = folder / _text(file, project, "main")
    for place in (folder, main, main.parent if main.name == "__main__.py" else main):
        if (place / "__main__.py").is_file():
            return place
    raise InputError(
        f"{file}: there is no __main__.py in {folder}" + (f", nor in {main}" if main != folder else ""),
        remedy="a policy pack's program is a file __main__.py that creates a PolicyPack",
    )


def _text(file: Path, project: Mapping[str, Any], key: str) -> str:
    value = project.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{file}: {key} is {value!r}, which is not text", remedy=f'write {key}: "{value}"')
    return value


def pack_environment(pack: PackProject, env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` for the pack's interpreter, with its virtual environment activated, as the CLI does."""
    result = {**env, **pack.env}
    if pack.env:
        result["PATH"] = os.pathsep.join([str(pack.python.parent), env.get("PATH", "")])
        result.pop("PYTHONHOME", None)
    return result
