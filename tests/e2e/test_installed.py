"""What `pip install 'gpufleet[lab]'` installs: the wheel in an empty environment, outside any checkout.

The tests go through one fleet repository in order.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.conftest import ROOT
from tests.unit.verdict.conftest import Git

pytestmark = pytest.mark.xdist_group("installed")

SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
UV = str(Path(sys.executable).with_name("uv"))
GUIDE = ROOT / "docs" / "guide" / "components.md"
MOCKS = """\
import pulumi
from pulumi.runtime import Mocks, set_mocks

made = []

class Recording(Mocks):
    def new_resource(self, args):
        made.append(args.typ)
        return f"{args.name}-id", args.inputs

    def call(self, args):
        return {}

set_mocks(Recording(), project="own", stack="dev")
"""


@dataclass
class Installation:
    """The environment with the wheel, a fleet repository, and a machine without the checkout."""

    wheel: Path
    venv: Path
    fleet: Path
    env: dict[str, str]

    def run(self, *command: str, cwd: Path | None = None, code: int = 0, timeout_s: int = 300) -> str:
        """Run a program of the environment; returns its output, asserts its exit code."""
        done = subprocess.run(
            [str(self.venv / "bin" / command[0]), *command[1:]],
            cwd=cwd or self.fleet,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *arguments: str, **options: Any) -> Any:
        """The object that `gpufleet <arguments> --json` ends with."""
        return json.loads(self.run("gpufleet", *arguments, "--json", **options).splitlines()[-1])


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("installed")

    def uv(*words: str, check: bool = True) -> int:
        command = [UV, *words, "--quiet", "--offline"]
        return subprocess.run(command, cwd=folder, check=check, timeout=300).returncode

    python = ("--python", sys.executable)
    uv("build", "--wheel", "--no-build-isolation", *python, "--out-dir", str(folder / "dist"), str(ROOT))
    (wheel,) = (folder / "dist").glob("*.whl")
    uv("venv", *python, str(folder / "venv"))
    into = ("pip", "install", "--python", str(folder / "venv" / "bin" / "python"))
    locked = ("--constraint", str(ROOT / "requirements" / "lock.txt"))
    if uv(*into, *locked, f"gpufleet[lab] @ {wheel.as_uri()}", check=False) != 0:
        # uv's cache was emptied since `make setup`: the locked packages come from its own folder.
        uv(*into, "--no-deps", str(wheel))
        packages = folder / "venv" / SITE
        (packages / "locked.pth").write_text(f"{sys.prefix}/{SITE}\n")
    home = folder / "home"
    home.mkdir()
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PULUMI_", "AWS_"))
    }
    env |= {"HOME": str(home), "VIRTUAL_ENV": str(folder / "venv"), "GPUFLEET_ROOT": ""}
    env["PATH"] = f"{folder / 'venv' / 'bin'}{os.pathsep}{env['PATH']}"
    made = Installation(wheel, folder / "venv", folder / "fleet", env)
    made.run("gpufleet", "new", str(made.fleet), cwd=folder)
    Git(made.fleet).commit("A new fleet")
    yield made
    made.run("gpufleet", "sandbox", "stop")


def test_wheel_has_one_top_level_name_and_no_links(installed: Installation) -> None:
    with ZipFile(installed.wheel) as wheel:
        names = wheel.namelist()
        links = [item.filename for item in wheel.infolist() if item.external_attr >> 28 == 0o12]
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"gpufleet"}
    assert links == []
    assert len(names) == len(set(names))
    held = "gpufleet/collections/ansible_collections/gpufleet/rack/roles/base/tasks/main.yml"
    assert {held, "gpufleet/policies/rules/budget/budget_monthly.py", "gpufleet/stacks/program.py"} <= {
        *names
    }


def test_nothing_is_imported_from_a_checkout(installed: Installation) -> None:
    code = "import gpufleet.components, gpufleet.stacks, gpufleet.policies.rules as r; print(r.__file__)"
    assert str(installed.venv) in installed.run("python", "-c", code)
    for name in ("components", "stacks", "policies", "tests"):
        installed.run("python", "-c", f"import {name}", code=1, cwd=installed.fleet.parent)


def test_sandbox_is_deployed_and_judged(installed: Installation) -> None:
    up = installed.json("up", "sandbox", "--yes")
    assert (up["engine"], up["cloud"]) == ("embedded", "sandbox")
    assert up["changes"]["create"] > 100
    again = installed.json("up", "sandbox", "--yes")
    assert (again["changes"]["create"], again["changes"]["update"]) == (0, 0)
    rules = installed.json("rules")
    assert len(rules["rules"] if isinstance(rules, dict) else rules) > 50


@pytest.mark.parametrize("environment", ["sandbox", "prod"])
def test_change_gets_a_verdict_against_its_base(installed: Installation, environment: str) -> None:
    document = installed.json("check", environment, "--base", "HEAD")
    assert document["verdict"] == "pass"
    assert (document["changes"]["create"], document["changes"]["update"]) == (0, 0)
    assert document["changes"]["same"] > 20
    assert len(document["rules"]) > 50


def test_racks_are_configured_by_the_roles_of_the_wheel(installed: Installation) -> None:
    """Run on this machine instead of rack hosts, in check mode."""
    local = installed.fleet.parent / "configure_local.py"
    shutil.copy(ROOT / "tests" / "unit" / "cli" / "configure_local.py", local)
    command = ("configure", "prod", "--check", "--only", "users", "--transport", "ssh", "--skip-preflight")
    done = subprocess.run(
        [str(installed.venv / "bin" / "python"), str(local), *command, "--limit", "ctl01", "--yes", "--json"],
        cwd=installed.fleet,
        env=installed.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    # A machine may lack a running sshd: then the last task of the role fails and reports it.
    assert done.returncode in (0, 4), done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["check"] is True
    assert result["hosts"]["ctl01"]["ok"] >= 4
    assert {"users"} >= {failure["role"] for failure in result["failures"]}


def test_user_program_can_use_a_component(installed: Installation) -> None:
    (example,) = re.findall(r"^## Nodes with EFA.*?^```python\n(.*?)^```", GUIDE.read_text(), re.M | re.S)
    program = installed.fleet.parent / "own.py"
    build = f"def build():\n{''.join(f'    {line}' for line in example.splitlines(keepends=True))}"
    program.write_text(f"{MOCKS}{build}\npulumi.runtime.test(build)()\nprint(*made)\n")
    made = installed.run("python", str(program), cwd=installed.fleet.parent)
    assert "gpufleet:node_group:NodeGroup" in made.split()


@pytest.mark.skipif(shutil.which("pulumi") is None, reason="the Pulumi CLI is not on PATH")
def test_pulumi_cli_previews_the_program_with_the_policy_pack(installed: Installation) -> None:
    (installed.fleet / ".gpufleet" / "backend").mkdir(parents=True, exist_ok=True)
    installed.env |= {
        "PULUMI_BACKEND_URL": f"file://{installed.fleet / '.gpufleet' / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "tried",
    }
    preview = installed.json("preview", "sandbox", "--engine", "pulumi")
    assert preview["engine"] == "pulumi"
    assert preview["changes"]["create"] > 100
