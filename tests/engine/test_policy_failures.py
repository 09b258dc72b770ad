"""Policy packs that do not start, crash, return an error, or are not packs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpufleet.engine import plugins
from gpufleet.engine.api import DiagnosticEvent
from gpufleet.engine.errors import PluginError, PolicyPackFailedError, UnsupportedError
from gpufleet.errors import ExitCode, InputError

from .conftest import Lab
from .packs import RECORDER, STANDARD, processes_of, write_pack

URN = "urn:pulumi:dev::lab::box:index:Box::"


def test_pack_that_fails_to_start_ends_the_run_with_its_output(lab: Lab, pack: Path) -> None:
    write_pack(pack, "raise ValueError('no licence for policies')\n")
    lab.program('Box("a")\n')
    for verb in ("preview", "up"):
        with pytest.raises(PluginError, match="no licence for policies") as failed:
            lab.run(verb)
        assert failed.value.message.startswith("policy pack pack did not start")
        assert "-m pulumi.policy" in failed.value.remedy
    assert lab.names() == []
    assert "Traceback" not in lab.messages("error")


def test_pack_that_prints_no_port_number_is_reported(lab: Lab, pack: Path) -> None:
    write_pack(pack, 'print("loading")\nPolicyPack("p", [rule("r", lambda args, report: None)])\n')
    with pytest.raises(PluginError, match="it printed\nloading"):
        lab.program('Box("a")\n').run("preview")


def test_pack_that_never_prints_a_port_times_out_and_is_ended(
    lab: Lab, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "START_TIMEOUT_S", 1.5)
    write_pack(pack, "import time\ntime.sleep(600)\n")
    # The provider starts after the pack, so its own start has enough time.
    with pytest.raises(PluginError, match="did not print its port within 2 s"):
        lab.program('Box("a")\n').run("preview")
    assert processes_of(pack) == []


def test_exception_in_a_rule_fails_the_run_and_names_the_resource(lab: Lab, pack: Path) -> None:
    write_pack(
        pack,
        """
        def check(args, report):
            if args.name == "b":
                raise KeyError("no such price")
        PolicyPack("p", [rule("r", check)])
        """,
    )
    lab.program('a = Box("a")\nBox("b", {"of": a.arn})\n')
    for changes in ({}, {"previewed": True}):
        with pytest.raises(PolicyPackFailedError) as failed:
            lab.run("up", **changes)
        assert failed.value.message.startswith(f"policy pack pack failed in Analyze of {URN}b: ")
        assert "no such price" in failed.value.message
        assert failed.value.exit_code is ExitCode.INTERNAL
    # The state has what `up` created before.
    assert lab.names() == ["a"]
    assert "a" in lab.resources()


def test_pack_that_crashes_ends_the_run_and_nothing_more_is_created(lab: Lab, pack: Path) -> None:
    write_pack(
        pack,
        """
        def check(args, report):
            if args.name == "b":
                sys.stderr.write("out of memory\\n")
                sys.stderr.flush()
                os._exit(9)
        PolicyPack("p", [rule("r", check)])
        """,
    )
    lab.program('a = Box("a")\nb = Box("b", {"of": a.arn})\nBox("c", {"of": b.arn})\n')
    with pytest.raises(
        PolicyPackFailedError, match=r"stopped during Analyze of .*::b: it printed\nout of memory"
    ):
        lab.run("up", previewed=True)
    assert lab.names() == ["a"]


def test_pack_that_refuses_user_input_is_bad_input(lab: Lab, pack: Path) -> None:
    refusal = 'context.abort(grpc.StatusCode.INVALID_ARGUMENT, "rates.yaml:3: no such rate")'
    write_pack(pack, RECORDER.replace('record("Analyze", request)', refusal))
    lab.configure(env={**lab.request.env, "RECORD": str(lab.folder / "record")})
    with pytest.raises(InputError, match=r"policy pack pack: rates\.yaml:3: no such rate") as refused:
        lab.program('Box("a")\n').run("up")
    assert refused.value.exit_code is ExitCode.BAD_INPUT
    assert lab.names() == []


def test_exception_in_a_stack_rule_fails_the_run(lab: Lab, pack: Path) -> None:
    write_pack(pack, 'PolicyPack("p", [stack_rule("s", lambda args, report: 1 / 0)])\n')
    with pytest.raises(PolicyPackFailedError, match=r"failed in AnalyzeStack: .*division by zero"):
        lab.program('Box("a")\n').run("up")
    assert lab.names() == []


def test_program_that_fails_at_once_is_not_reported_as_a_pack_failure(lab: Lab, pack: Path) -> None:
    write_pack(pack, STANDARD)
    result = lab.program("def broken(:\n").run("preview")
    assert not result.ok
    assert "SyntaxError" in lab.messages("error")
    assert "policy pack" not in lab.messages("error")


def test_failed_program_stops_up_without_a_violation(lab: Lab, pack: Path) -> None:
    write_pack(pack, STANDARD)
    result = lab.program('Box("a")\nraise ValueError("half")\n').run("up")
    assert not result.ok
    assert lab.names() == []
    errors = [e for e in lab.events if isinstance(e, DiagnosticEvent) and e.severity == "error"]
    assert len(errors) == 1


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 7)])
def test_packs_end_with_a_killed_or_interrupted_engine(
    lab: Lab, pack: Path, tmp_path: Path, sign: signal.Signals, code: int
) -> None:
    write_pack(
        pack,
        """
        import time
        def check(args, report):
            if args.name == "a":
                open(os.environ["REACHED"], "w").close()
                time.sleep(600)
        PolicyPack("p", [rule("r", check)])
        """,
    )
    reached = tmp_path / "reached"
    lab.program('Box("a")\n')
    script = f"""
import sys; sys.path[:0] = {[str(Path.cwd())]!r}
from pathlib import Path
from gpufleet.engine.embedded import run
from tests.engine.conftest import Lab
lab = Lab(Path({str(lab.folder)!r}))
lab.program('Box("a")\\n').configure(policy_packs=(Path({str(pack)!r}),))
run._INTERRUPT_GRACE_S = 1.0
sys.exit(0 if lab.run("preview").ok else 7)
"""
    engine = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "REACHED": str(reached)}, cwd=Path.cwd()
    )
    try:
        deadline = time.monotonic() + 30
        while not reached.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(processes_of(pack)) == 1
    finally:
        os.kill(engine.pid, sign)
        assert engine.wait(timeout=20) == code
    deadline = time.monotonic() + 10
    while processes_of(pack) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(pack) == []


# -- the folder


@pytest.mark.parametrize(
    ("project", "message"),
    [
        ("runtime: nodejs\n", "the policy pack's runtime is 'nodejs'"),
        ("runtime: {name: python, options: {toolchain: uv}}\n", "uses the toolchain 'uv'"),
    ],
)
def test_packs_that_need_the_cli_are_refused_by_name(
    lab: Lab, pack: Path, project: str, message: str
) -> None:
    write_pack(pack, STANDARD, project)
    with pytest.raises(UnsupportedError, match=message):
        lab.program("").run("preview")


@pytest.mark.parametrize(
    ("project", "message"),
    [
        ("description: nothing\n", "the key 'runtime' is missing"),
        ("runtime: [\n", "this is not YAML"),
        ("runtime: python\nversion: 1.0\n", "version is 1.0, which is not text"),
        ("runtime: {name: python, options: {virtualenv: venv}}\n", "the option virtualenv is 'venv'"),
        ('runtime: python\nrequiredPulumiVersion: ">=4.0.0"\n', "the pack requires Pulumi >=4.0.0"),
    ],
)
def test_invalid_project_file_is_bad_input(lab: Lab, pack: Path, project: str, message: str) -> None:
    write_pack(pack, STANDARD, project)
    with pytest.raises(InputError, match=message) as refused:
        lab.program("").run("preview")
    assert str(pack / "PulumiPolicy.yaml") in refused.value.message
    assert refused.value.remedy
    assert refused.value.exit_code is ExitCode.BAD_INPUT


def test_folder_without_a_pack_is_bad_input(lab: Lab, pack: Path) -> None:
    with pytest.raises(InputError, match=r"PulumiPolicy\.yaml: the policy pack cannot be read"):
        lab.program("").run("preview")
    write_pack(pack, STANDARD)
    (pack / "__main__.py").unlink()
    with pytest.raises(InputError, match=r"there is no __main__\.py"):
        lab.run("preview")


def test_main_sets_the_program_and_a_virtual_environment_is_used(lab: Lab, pack: Path) -> None:
    write_pack(
        pack / "src",
        """
        def check(args, report):
            if args.name == "a":
                report(os.environ["VIRTUAL_ENV"] + " " + os.getcwd())
        PolicyPack("p", [rule("r", check, EnforcementLevel.ADVISORY)])
        """,
    )
    (pack / "venv").symlink_to(Path(sys.prefix))
    options = "{name: python, options: {virtualenv: venv}}"
    (pack / "PulumiPolicy.yaml").write_text(f"runtime: {options}\nmain: src\n")
    (violation,) = lab.program('Box("a")\n').run("preview").violations
    assert violation.message.split("\n")[1] == f"{pack / 'venv'} {pack}"
