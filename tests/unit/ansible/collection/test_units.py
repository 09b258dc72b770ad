"""Units: started, restarted when their files change, and the same in check mode."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
# systemd's state of each unit is a file in the folder; the verbs change it as systemd does.
SYSTEMCTL = """\
verb=; for word in "$@"; do case "$word" in
  --no-pager|--no-reload|--property|--|*,*) ;;
  *) if [ -z "$verb" ]; then verb=$word; else units="$units $word"; fi;;
esac; done
first=1
for unit in $units; do
  state={folder}/$unit
  case "$verb" in
    show)
      [ -n "$first" ] || echo; first= looks= job=
      if [ -e $state ]; then . $state; else load=not-found active=inactive file= type= sub=dead; fi
      printf 'Id=%s\\nLoadState=%s\\nActiveState=%s\\nSubState=%s\\nUnitFileState=%s\\n' \\
        $unit $load $active "$sub" "$file"
      printf 'NeedDaemonReload=no\\nResult=success\\nType=%s\\nConditionResult=%s\\nJob=%s\\n' \\
        "$type" ${condition:-yes} ${job:-0}
      # What is under way ends by itself after it was looked at so many times.
      if [ -n "$looks" ]; then
        looks=$((looks - 1)); echo looks=$looks >>$state
        if [ $looks = 0 ]; then echo "active=active job=0 looks=" | tr ' ' '\\n' >>$state; fi
      fi;;
    start|restart|reload-or-restart)
      if grep -q condition=no $state; then :
      elif grep -q broken $state; then sed -i s/active=.*/active=failed/ $state
      else sed -i s/active=.*/active=active/ $state; fi;;
    stop) sed -i s/active=.*/active=inactive/ $state;;
    enable) sed -i s/file=.*/file=enabled/ $state;;
    disable) sed -i s/file=.*/file=disabled/ $state;;
    mask) echo 'load=masked active=inactive file=masked type= sub=dead' | tr ' ' '\\n' >$state;;
    unmask) sed -i -e s/load=masked/load=loaded/ -e s/file=masked/file=disabled/ $state;;
  esac
done
"""


class Host:
    """A host whose systemd is a folder of files."""

    def __init__(self, folder: Path, programs: Programs) -> None:
        self.folder, self.programs = folder, programs
        folder.mkdir()
        programs.add("systemctl", SYSTEMCTL.replace("{folder}", str(folder)))
        programs.add("journalctl", "echo 'address already in use'")

    def unit(
        self, name: str, *, active: str = "inactive", file: str = "disabled", type: str = "simple"
    ) -> None:
        words = f"load=loaded active={active} file={file} type={type} sub=dead"
        (self.folder / name).write_text(words.replace(" ", "\n") + "\n")

    def did(self) -> list[str]:
        """Changing verbs, in order, since the last call."""
        calls = self.programs.called("systemctl")
        self.programs.log.unlink(missing_ok=True)
        words = [[word for word in line.split()[1:] if not word.startswith("--")] for line in calls]
        return [" ".join(line) for line in words if line[0] not in ("show", "daemon-reload")]


@pytest.fixture
def host(programs: Programs, tmp_path: Path) -> Host:
    return Host(tmp_path / "systemd", programs)


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load("units")
    monkeypatch.setattr(module, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(module, "SETTLE_S", 0)
    return module


def test_unit_is_enabled_and_started_once(units: ModuleType, host: Host, run: Run) -> None:
    host.unit("munge.service")
    predicted = run(units, check=True, units=[{"name": "munge.service"}])
    assert host.did() == []
    answer = run(units, units=[{"name": "munge.service"}])
    assert predicted["changed_units"] == answer["changed_units"] == {"munge.service": ["enable", "start"]}
    assert host.did() == ["enable munge.service", "start munge.service"]
    assert run(units, units=[{"name": "munge.service"}])["changed"] is False
    assert host.did() == []


@pytest.mark.parametrize("state", ["active=activating", "active=inactive\njob=7"])
def test_unit_that_is_starting_at_boot_is_unchanged(
    units: ModuleType, host: Host, run: Run, state: str
) -> None:
    host.unit("x.service", file="enabled")
    with (host.folder / "x.service").open("a") as more:
        more.write(f"{state}\nlooks=2\n")
    assert run(units, check=True, units=[{"name": "x.service"}])["changed"] is False
    assert run(units, units=[{"name": "x.service"}])["changed"] is False
    assert host.did() == []


def test_unit_that_never_finishes_starting_is_not_waited_for(
    units: ModuleType, host: Host, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "UNDER_WAY_S", 0.1)
    host.unit("x.service", active="activating", file="enabled")
    assert run(units, units=[{"name": "x.service"}])["changed_units"] == {"x.service": ["start"]}


def test_daemon_reload_runs_only_before_a_start_that_needs_it(
    units: ModuleType, host: Host, run: Run
) -> None:
    host.unit("slurmd.service", file="enabled")
    run(units, units=[{"name": "slurmd.service"}])
    assert [line.split()[2] for line in host.programs.called("systemctl")] == [
        *("show", "daemon-reload"),
        *("start", "show"),
    ]
    host.did()
    run(units, units=[{"name": "slurmd.service"}])
    assert [line.split()[2] for line in host.programs.called("systemctl")] == ["show"]


def test_all_unit_links_are_created_first_and_read_once(units: ModuleType, host: Host, run: Run) -> None:
    """systemctl reloads all files of a host after each of them, unless it is disabled."""
    for name in ("a.service", "b.service", "old.service"):
        host.unit(name, file="enabled" if name == "old.service" else "disabled")
    wanted = [
        {"name": "a.service"},
        {"name": "old.service", "state": "stopped", "enabled": False},
        {"name": "b.service"},
    ]
    assert run(units, units=wanted)["changed_units"] == {
        "a.service": ["enable", "start"],
        "old.service": ["disable"],
        "b.service": ["enable", "start"],
    }
    calls = [line.split(maxsplit=2)[2] for line in host.programs.called("systemctl") if " show " not in line]
    assert calls == [
        "--no-reload enable -- a.service b.service",
        "--no-reload disable -- old.service",
        "daemon-reload",
        "start -- a.service",
        "start -- b.service",
    ]
    host.did()
    assert run(units, units=wanted)["changed"] is False
    assert host.did() == []


def test_unit_with_an_unmet_condition_is_an_error(units: ModuleType, host: Host, run: Run) -> None:
    host.unit("slurmd.service")
    with (host.folder / "slurmd.service").open("a") as state:
        state.write("condition=no\n")
    failed = run(units, units=[{"name": "slurmd.service"}])
    assert failed["failed"] and "a condition of its unit is not met" in failed["msg"]


def test_changed_files_restart_the_unit_even_after_a_killed_run(
    units: ModuleType, host: Host, run: Run, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("1")
    host.unit("munge.service")
    unit = {"name": "munge.service", "files": [str(key)]}
    run(units, units=[unit])
    host.did()
    key.write_text("2")  # and the run ended here
    assert run(units, check=True, units=[unit])["changed"] is True
    assert run(units, units=[unit])["changed_units"] == {"munge.service": ["restart"]}
    assert host.did() == ["restart munge.service"]
    assert run(units, units=[unit])["changed"] is False


def test_failed_restart_is_retried_by_the_next_run(
    units: ModuleType, host: Host, run: Run, tmp_path: Path
) -> None:
    conf = tmp_path / "conf"
    conf.write_text("1")
    host.unit("x.service")
    unit = {"name": "x.service", "files": [str(conf)]}
    run(units, units=[unit])
    conf.write_text("2")
    (host.folder / "x.service").write_text((host.folder / "x.service").read_text() + "# broken\n")
    answer = run(units, units=[unit])
    assert answer["failed"] and "address already in use" in answer["msg"] and "x.service" in answer["msg"]
    host.unit("x.service", active="failed", file="enabled")
    assert run(units, units=[unit])["changed_units"] == {"x.service": ["start"]}


def test_pending_changes_of_a_role_make_check_mode_report_a_restart(
    units: ModuleType, host: Host, run: Run
) -> None:
    host.unit("x.service", active="active", file="enabled")
    unit = {"name": "x.service", "restart": True}
    assert run(units, check=True, units=[unit])["changed_units"] == {"x.service": ["restart"]}
    assert host.did() == []
    assert run(units, units=[unit | {"reload": True}])["changed_units"] == {
        "x.service": ["reload-or-restart"]
    }


def test_unit_of_a_missing_package_is_a_change_in_check_mode_and_an_error_otherwise(
    units: ModuleType, host: Host, run: Run
) -> None:
    unit = {"name": "coming.service"}
    assert run(units, check=True, units=[unit])["changed"] is True
    answer = run(units, units=[unit])
    assert answer["failed"] and "There is no unit coming.service" in answer["msg"]


def test_unwanted_unit_is_stopped_and_masked_even_if_it_never_existed(
    units: ModuleType, host: Host, run: Run
) -> None:
    host.unit("opensm.service", active="active", file="enabled")
    both = [{"name": "opensm.service", "masked": True}, {"name": "opensmd.service", "masked": True}]
    predicted = run(units, check=True, units=both)
    answer = run(units, units=both)
    assert predicted["changed_units"] == answer["changed_units"]
    assert host.did() == ["stop opensm.service", "mask opensm.service", "mask opensmd.service"]
    assert run(units, units=both)["changed"] is False
    assert run(units, units=[{"name": "opensm.service"}])["changed_units"]["opensm.service"][0] == "unmask"


def test_stopped_unit_can_stay_enabled_or_disabled(units: ModuleType, host: Host, run: Run) -> None:
    host.unit("a.service", active="active", file="enabled")
    host.unit("b.service", active="active", file="enabled")
    wanted = [
        {"name": "a.service", "state": "stopped"},
        {"name": "b.service", "state": "stopped", "enabled": False},
    ]
    assert run(units, units=wanted)["changed_units"] == {
        "a.service": ["stop"],
        "b.service": ["disable", "stop"],
    }
    absent = [{"name": "none.service", "state": "stopped", "enabled": False}]
    assert run(units, units=absent)["changed"] is False


def test_oneshot_unit_runs_again_only_for_changed_files(
    units: ModuleType, host: Host, run: Run, tmp_path: Path
) -> None:
    conf = tmp_path / "90.conf"
    conf.write_text("a")
    host.unit("systemd-sysctl.service", file="static", type="oneshot")
    unit = {"name": "systemd-sysctl.service", "files": [str(conf)]}
    assert run(units, units=[unit])["changed"] is True
    host.unit("systemd-sysctl.service", file="static", type="oneshot")
    assert run(units, units=[unit])["changed"] is False
    conf.write_text("b")
    assert run(units, units=[unit])["changed"] is True


def test_units_with_a_false_condition_are_unchanged(units: ModuleType, host: Host, run: Run) -> None:
    assert run(units, units=[{"name": "none.service", "when": False}])["changed"] is False
    assert host.did() == []


def test_digest_covers_every_file_of_a_folder_and_missing_files(units: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "conf.d"
    empty = units.digest([str(folder)])
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/a").write_text("1")
    one = units.digest([str(folder)])
    (folder / "sub/a").write_text("2")
    two = units.digest([str(folder)])
    (folder / "sub/a").rename(folder / "sub/b")
    assert len({empty, one, two, units.digest([str(folder)])}) == 4
    assert units.digest(["/b", "/a"]) == units.digest(["/a", "/b"])


def test_records_are_private_and_a_damaged_one_is_ignored(units: ModuleType) -> None:
    units.write_record("x.service", ["/a"], "abc")
    assert units.read_record("x.service", ["/a"]) == "abc"
    assert units.RECORDS.stat().st_mode & 0o077 == 0
    units.record_of("x.service").write_text("{")
    assert units.read_record("x.service", ["/a"]) is None
    units.record_of("x.service").write_text(json.dumps([1]))
    assert units.read_record("x.service", ["/a"]) is None


def test_unit_named_without_files_keeps_the_record_of_another_task(
    units: ModuleType, host: Host, run: Run, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("1")
    host.unit("slurmctld.service")
    run(units, units=[{"name": "slurmctld.service", "files": [str(key)]}])
    assert run(units, units=[{"name": "slurmctld.service", "restart": True}])["changed"] is True
    assert run(units, units=[{"name": "slurmctld.service", "files": [str(key)]}])["changed"] is False


def test_roles_that_name_different_files_of_a_unit_do_not_restart_it_in_turn(
    units: ModuleType, host: Host, run: Run, tmp_path: Path
) -> None:
    host.unit("systemd-sysctl.service")
    of_roles = [[{"name": "systemd-sysctl.service", "files": [str(tmp_path / role)]}] for role in "ab"]
    for role in "ab":
        (tmp_path / role).write_text(role)
    assert [run(units, units=given)["changed"] for given in of_roles] == [True, True]
    assert [run(units, units=given)["changed"] for given in of_roles] == [False, False]
    (tmp_path / "b").write_text("other")
    assert [run(units, units=given)["changed"] for given in of_roles] == [False, True]


def test_record_of_an_earlier_release_restarts_nothing(
    units: ModuleType, host: Host, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("1")
    host.unit("munge.service")
    given = [{"name": "munge.service", "files": [str(file)]}]
    run(units, units=given)
    units.record_of("munge.service").write_text(json.dumps({"digest": units.digest([str(file)])}))
    assert run(units, units=given)["changed"] is False
    file.write_text("2")
    assert run(units, units=given)["changed"] is True
    assert run(units, units=given)["changed"] is False


def test_restart_that_disturbs_work_is_guarded_and_a_first_start_is_not(
    units: ModuleType, host: Host, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded: list[str] = []
    monkeypatch.setattr(units, "take_out_of_service", lambda change, **_: guarded.append(change))
    host.unit("containerd.service")
    unit = {"name": "containerd.service", "guard": "containerd restarts"}
    run(units, units=[unit])
    assert guarded == []
    run(units, units=[unit | {"restart": True}], check=True)
    run(units, units=[unit | {"restart": True}])
    assert guarded == ["containerd restarts"] * 2
