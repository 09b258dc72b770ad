"""How the engine starts and interrupts the Pulumi CLI, with a stand-in for `pulumi`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from gpufleet.engine.api import Event, InterruptEvent, RunResult, StackRequest
from gpufleet.engine.pulumi_cli import PulumiCliEngine
from gpufleet.errors import CloudError, InputError

# It finishes its work after the first interruption and ends after the second, as the CLI does.
STAND_IN = """#!{python}
import os, pathlib, signal, sys, time
folder = pathlib.Path({folder!r})
words = [word for word in sys.argv[1:] if not word.startswith("--")]
if words[0] == "version":
    print("v3.260.0")
elif words[0] == "stack" and "--show-name" in sys.argv:
    sys.exit("error: no stack named 'dev' found")
elif words[0] == "up":
    seen = []
    def see(number, frame):
        seen.append(number)
        (folder / f"seen{{len(seen)}}").touch()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, see)
    (folder / "session").write_text(str(os.getsid(0)))
    (folder / "started").touch()
    while not seen:
        time.sleep(0.02)
    end = time.monotonic() + {work_s}
    while len(seen) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    (folder / "ended").write_text(" ".join(signal.Signals(each).name for each in seen))
    sys.exit("error: update canceled")
"""


class Trial:
    """A project and a stand-in for the CLI, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []
        (folder / "Pulumi.yaml").write_text("name: trial\nruntime: python\n")

    def stand_in(self, text: str) -> Path:
        """Put a `pulumi` first on PATH."""
        place = self.folder / "bin" / "pulumi"
        place.parent.mkdir()
        place.write_text(text)
        place.chmod(0o755)
        return place

    def up(self) -> RunResult:
        """One `up`; `events` has its events."""
        request = StackRequest(
            project="trial",
            stack="dev",
            project_root=self.folder,
            program_dir=self.folder,
            state_file=self.folder / "state.json",
            env={"PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        )
        return PulumiCliEngine().up(request, self.events.append)

    def up_interrupted(self, *signals: signal.Signals, work_s: float, deaf: bool = False) -> RunResult:
        """An `up` during which signals arrive, one after another."""
        text = STAND_IN.replace("len(seen) < 2 and ", "") if deaf else STAND_IN
        self.stand_in(text.format(python=sys.executable, folder=str(self.folder), work_s=work_s))

        over = threading.Event()

        def send() -> None:
            for count, sign in enumerate(signals):
                # Two signals at once count as one for the receiver.
                while not (self.folder / (f"seen{count}" if count else "started")).exists():
                    if over.wait(0.02):
                        return
                os.kill(os.getpid(), sign)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            return self.up()
        finally:
            over.set()
            sender.join()

    def reported(self, name: str) -> str:
        """The stand-in's own record."""
        return (self.folder / name).read_text()


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_interruption_waits_until_the_cli_has_finished_running_operations(
    trial: Trial, sign: signal.Signals
) -> None:
    result = trial.up_interrupted(sign, work_s=1)
    assert result.interrupted
    assert not result.ok
    assert trial.reported("ended") == sign.name
    assert trial.events == [InterruptEvent()]


def test_second_interruption_is_sent_to_the_cli(trial: Trial) -> None:
    result = trial.up_interrupted(signal.SIGINT, signal.SIGINT, work_s=600)
    assert result.interrupted
    assert trial.reported("ended") == "SIGINT SIGINT"
    assert trial.events == [InterruptEvent(), InterruptEvent(forced=True)]


def test_third_interruption_kills_a_cli_that_does_not_end(trial: Trial) -> None:
    result = trial.up_interrupted(*[signal.SIGINT] * 3, work_s=600, deaf=True)
    assert result.interrupted
    assert not (trial.folder / "ended").exists()


def test_terminal_signal_does_not_reach_the_cli_directly(trial: Trial) -> None:
    trial.up_interrupted(signal.SIGINT, work_s=0)
    assert int(trial.reported("session")) != os.getsid(0)


def test_cli_that_does_not_print_its_version_is_reported_with_a_remedy(trial: Trial) -> None:
    place = trial.stand_in("#!/bin/sh\nexit 7\n")
    with pytest.raises(InputError, match=r"`pulumi version` fails \(exit code 7\)") as refused:
        trial.up()
    assert str(place) in str(refused.value)
    assert f"{place} version" in refused.value.remedy


def test_environment_without_pip_is_refused_before_the_cli_runs(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial.stand_in("#!/bin/sh\nexit 7\n")
    monkeypatch.setattr("gpufleet.engine.pulumi_cli.find_spec", lambda _name: None)
    with pytest.raises(InputError, match="has no pip") as refused:
        trial.up()
    assert "ensurepip" in refused.value.remedy


def test_cli_without_a_backend_is_reported_with_both_remedies(trial: Trial) -> None:
    trial.stand_in(
        '#!/bin/sh\ncase "$1" in version) echo v3.260.0;; *) echo "error: no login" >&2; exit 255;; esac\n'
    )
    with pytest.raises(CloudError, match="no login") as refused:
        trial.up()
    assert "pulumi login" in refused.value.remedy
    assert "--engine embedded" in refused.value.remedy


NOTHING_THERE = """#!/bin/sh
case "$*" in
version*) echo v3.260.0;;
*--show-name*) echo "error: no stack named 'dev' found" >&2; exit 6;;
*) echo "[]";;
esac
"""
FOREIGN = "token: [hidden-in-a-file\n"


@pytest.mark.parametrize("file", ["Pulumi.yaml", "Pulumi.dev.yaml", "config/Pulumi.dev.yaml"])
def test_project_file_link_out_of_the_project_is_not_read(
    trial: Trial, tmp_path_factory: pytest.TempPathFactory, file: str
) -> None:
    trial.stand_in(NOTHING_THERE)
    foreign = tmp_path_factory.mktemp("foreign") / "Pulumi.dev.yaml"
    foreign.write_text(FOREIGN)
    if "/" in file:
        (trial.folder / "Pulumi.yaml").write_text("name: trial\nruntime: python\nstackConfigDir: config\n")
        (trial.folder / "config").symlink_to(foreign.parent)
    else:
        (trial.folder / file).unlink(missing_ok=True)
        (trial.folder / file).symlink_to(foreign)
    with pytest.raises(InputError, match="leads out") as refused:
        trial.up()
    assert "hidden" not in f"{refused.value.message} {refused.value.remedy}"


def test_stack_settings_are_not_searched_above_the_project(trial: Trial) -> None:
    trial.stand_in(NOTHING_THERE)
    (trial.folder.parent / "Pulumi.dev.yaml").write_text(FOREIGN)
    (trial.folder / "Pulumi.yaml").write_text("name: trial\nruntime: python\nstackConfigDir: ..\n")
    with pytest.raises(InputError, match="leads out"):
        trial.up()


@pytest.mark.parametrize("text", ["config: [\n", "- a\n", "config: \x01\n", "a: " + "[" * 5000])
def test_project_file_that_is_not_a_yaml_mapping_is_bad_input(trial: Trial, text: str) -> None:
    trial.stand_in(NOTHING_THERE)
    (trial.folder / "Pulumi.dev.yaml").write_text(text)
    with pytest.raises(InputError, match=r"Pulumi\.dev\.yaml: this is not") as refused:
        trial.up()
    assert "pulumi config" in refused.value.remedy
