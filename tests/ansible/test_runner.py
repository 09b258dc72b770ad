"""The driver: results by host, hidden secrets, errors with remedies."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
import yaml

from gpufleet.errors import CloudError, GpufleetError, InputError
from gpufleet.racks.runner import PlaybookRun, run_playbook

SECRET = "planted-4f1c"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder for playbooks with two local hosts and an unreachable one."""
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / "home"))
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    gone = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_user": "nobody"}
    hosts = {"one": local, "two": local | {"second": True}, "gone": gone}
    (tmp_path / "inventory.yaml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    (tmp_path / "ansible.cfg").write_text("[defaults]\ntimeout = 3\n")
    return tmp_path


def playbook(project: Path, *tasks: dict, **play) -> PlaybookRun:
    document = [{"name": "Test", "hosts": "all", "gather_facts": False, "tasks": list(tasks)} | play]
    (project / "play.yml").write_text(yaml.safe_dump(document, sort_keys=False))
    return PlaybookRun(
        project=project, playbook="play.yml", inventory=project / "inventory.yaml", limit="one,two"
    )


def changed(run: PlaybookRun, **changes) -> PlaybookRun:
    from dataclasses import replace

    return replace(run, **changes)


def shell(command: str, **more) -> dict:
    return {"name": "Run it", "ansible.builtin.shell": command} | more


@pytest.mark.fresh
def test_each_task_result_of_each_host_is_reported(project):
    events = []
    result = run_playbook(playbook(project, shell("echo hello")), events.append)
    reported = [(event.kind, event.host, event.task) for event in events if event.kind != "started"]
    assert sorted(reported) == [("changed", "one", "Run it"), ("changed", "two", "Run it")]
    assert all(event.duration_s > 0 for event in events if event.kind == "changed")
    assert events[-1].result["stdout"] == "hello"
    assert result.hosts["one"].changed == 1
    assert result.failed_hosts == ()


def test_failed_host_is_reported_with_its_reason_and_others_continue(project):
    run = playbook(
        project,
        {
            "name": "Refuse the second",
            "ansible.builtin.assert": {"that": "second is not defined", "fail_msg": "no room left"},
        },
        shell("true"),
    )
    result = run_playbook(run)
    assert result.failed_hosts == ("two",)
    assert (result.hosts["one"].changed, result.hosts["two"].changed) == (1, 0)
    assert [(each.host, each.task, each.message) for each in result.failures] == [
        ("two", "Refuse the second", "no room left")
    ]


def test_unreachable_and_failed_hosts_are_reported_separately(project):
    result = run_playbook(changed(playbook(project, shell("true")), limit="one,gone"))
    assert (result.hosts["gone"].unreachable, result.hosts["gone"].failed) == (1, 0)
    assert result.failed_hosts == ("gone",)
    assert result.hosts["one"].changed == 1
    assert result.failures[0].kind == "unreachable"


def test_host_keys_are_checked_unless_the_inventory_disables_it(project):
    run = playbook(project, shell("echo $ANSIBLE_HOST_KEY_CHECKING"))
    events = []
    run_playbook(changed(run, limit="one"), events.append)
    assert events[-1].result["stdout"] == "True"


def test_check_mode_changes_nothing(project):
    target = project / "written"
    run = playbook(
        project,
        {"name": "Write", "ansible.builtin.copy": {"content": "x\n", "dest": str(target), "mode": "0644"}},
    )
    result = run_playbook(changed(run, limit="one", check=True, diff=True))
    assert result.changed == 1
    assert not target.exists()


def test_secrets_are_only_in_the_environment(project, monkeypatch, tmp_path):
    folder = tmp_path / "private"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    seen: dict[str, object] = {}

    def look(event):
        if event.kind != "started":
            return
        seen["files"] = [
            str(path) for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
        ]
        seen["arguments"] = [
            process.name
            for process in Path("/proc").glob("[0-9]*")
            if SECRET.encode() in _read(process / "cmdline")
        ]
        seen["mode"] = [oct(path.stat().st_mode & 0o777) for path in folder.iterdir()]

    task = shell(f'test "$PLANTED" = {SECRET[:4]}"{SECRET[4:]}"', no_log=True)
    uses = {"name": "Use it", "ansible.builtin.debug": {"msg": "{{ lookup('env', 'PLANTED') | length }}"}}
    run = changed(playbook(project, uses, task), secrets={"PLANTED": SECRET}, limit="one")
    events = []
    result = run_playbook(run, lambda event: (look(event), events.append(event)))
    assert result.failed_hosts == ()
    assert events[1].result["msg"] == len(SECRET)
    assert seen == {"files": [], "arguments": [], "mode": ["0o700"]}
    assert SECRET not in repr(run)
    assert list(folder.iterdir()) == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_vault_opens_with_a_password_that_is_in_no_file(project):
    import subprocess

    secret_file = project / "password"
    secret_file.write_text(SECRET)
    vars_file = project / "vault.yml"
    vars_file.write_text("hidden: found\n")
    tool = Path(sys.executable).with_name("ansible-vault")
    subprocess.run(
        [tool, "encrypt", "--vault-password-file", secret_file, vars_file], check=True, capture_output=True
    )
    secret_file.unlink()
    run = playbook(
        project,
        {"name": "Open", "ansible.builtin.assert": {"that": "hidden == 'found'"}},
        vars_files=[str(vars_file)],
    )
    assert run_playbook(changed(run, vault_password=SECRET)).failed_hosts == ()
    with pytest.raises(GpufleetError, match="ended with code"):
        run_playbook(changed(run, vault_password="wrong"))


def test_variables_reach_the_play(project):
    run = playbook(project, {"name": "Say", "ansible.builtin.debug": {"msg": "{{ count + 1 }}"}})
    events = []
    run_playbook(changed(run, limit="one", variables={"count": 41}), events.append)
    assert events[-1].result["msg"] == 42


def test_limit_that_matches_no_host_is_bad_input(project):
    with pytest.raises(InputError, match=r"no host of .* matches .nowhere."):
        run_playbook(changed(playbook(project, shell("true")), limit="nowhere"))


def test_playbook_syntax_error_is_reported(project):
    run = playbook(project, {"name": "Broken", "no.such.module": {}})
    with pytest.raises(GpufleetError, match=r"no\.such\.module"):
        run_playbook(run)


@pytest.mark.parametrize("what", ["playbook", "inventory"])
def test_missing_file_is_named(project, what):
    run = playbook(project, shell("true"))
    gone = (
        changed(run, playbook="gone.yml") if what == "playbook" else changed(run, inventory=project / "gone")
    )
    with pytest.raises(InputError, match=f"there is no {what} .*gone"):
        run_playbook(gone)


def leftovers(text: str) -> list[str]:
    """Processes whose arguments hold `text`."""
    processes = Path("/proc").glob("[0-9]*")
    found = [_read(process / "cmdline").replace(b"\0", b" ") for process in processes]
    return [line.decode(errors="replace") for line in found if text.encode() in line]


def test_timeout_ends_the_run_and_all_its_processes(project, monkeypatch):
    private = project / "private"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    started = time.monotonic()
    with pytest.raises(CloudError, match="did not end within 4 s"):
        run_playbook(changed(playbook(project, shell("sleep 61.25")), timeout_s=4))
    assert time.monotonic() - started < 30
    assert leftovers("sleep 61.25") == []
    assert leftovers(str(project)) == []
    assert list(private.iterdir()) == []


def test_signal_ends_the_run_and_restores_the_previous_handler(project):
    before = signal.getsignal(signal.SIGINT)
    timer = threading.Timer(4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_playbook(playbook(project, shell("sleep 61.75")))
    finally:
        timer.cancel()
    assert signal.getsignal(signal.SIGINT) is before
    assert leftovers("sleep 61.75") == []
