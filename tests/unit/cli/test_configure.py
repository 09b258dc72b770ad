"""`gpufleet configure` as a process, on hosts that are this machine, with a playbook of the test's own."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpufleet.onprem.stragglers import marked
from tests.conftest import ROOT, make_checkout

HOSTS = ("dgx01", "dgx02", "ctl01", "login01")
KEY = "planted-munge-key-4f1c-" + "k" * 40
PASSWORD = "planted-password-77aa-" + "p" * 20
SECRETS = {"GPUFLEET_SECRET_MUNGE_KEY": KEY, "GPUFLEET_SECRET_DATABASE_PASSWORD": PASSWORD}
PLAY = """---
- name: Test
  hosts: onprem
  gather_facts: false
  vars:
    munge_key: "{{{{ lookup('ansible.builtin.env', 'GPUFLEET_SECRET_MUNGE_KEY_LAB') }}}}"
  tasks:
{tasks}
"""
# Over the host's connection, three Pythons on each. Most tests ask what becomes of results and not how tasks
# get to hosts: for them the controller writes the file.
COPY = """
    - name: Write a file
      ansible.builtin.copy:
        content: "new\\n"
        dest: "{folder}/out-{{{{ inventory_hostname }}}}"
        mode: "0644"
"""
WRITE = """
    - name: Write a file
      write_here:
        content: "new\\n"
        dest: "{folder}/out-{{{{ inventory_hostname }}}}"
"""
WRITE_HERE = """
from pathlib import Path

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        path, text = Path(self._task.args["dest"]), self._task.args["content"]
        before = path.read_text() if path.is_file() else ""
        if before != text and not self._task.check_mode:
            path.write_text(text)
        said = {"before": before, "after": text, "before_header": str(path), "after_header": str(path)}
        return {"changed": before != text} | ({"diff": said} if self._task.diff else {})
"""


class Rack:
    """A checkout with a playbook, and the command line as a process whose rack hosts are local."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.checkout = make_checkout(folder)
        self.out = folder / "out"
        self.out.mkdir()
        self.env = os.environ | self.checkout.env | SECRETS
        self.env |= {"PYTHONPATH": str(ROOT), "ANSIBLE_HOME": str(folder / "ansible-home")}
        (folder / "home").mkdir()
        actions = folder / "ansible" / "playbooks" / "action_plugins"
        actions.mkdir()
        (actions / "write_here.py").write_text(WRITE_HERE)
        for role in ("munge", "slurm_database"):
            (folder / "ansible" / "roles" / role).mkdir(exist_ok=True)

    def play(self, *tasks: str) -> None:
        text = "".join(task.format(folder=self.out) for task in tasks)
        (self.root / "ansible" / "playbooks" / "site.yml").write_text(PLAY.format(tasks=text))

    def command(self, *arguments: str) -> list[str]:
        module = "tests.unit.cli.configure_local"
        return [sys.executable, "-m", module, "configure", "sandbox", "--transport", "ssh", *arguments]

    def run(self, *arguments: str, away: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command("--skip-preflight", *arguments),
            cwd=self.root,
            env=self.env | {"TEST_AWAY": away} | env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def json(self, *arguments: str, code: int = 0, **options: Any) -> Any:
        done = self.run(*arguments, "--yes", "--json", **options)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    @property
    def kept(self) -> Path:
        return self.root / ".gpufleet" / "configure" / "sandbox"

    @property
    def last(self) -> Any:
        return json.loads((self.kept / "last.json").read_text())

    def everything_kept(self) -> Iterator[tuple[Path, str]]:
        for path in (self.root / ".gpufleet").rglob("*"):
            if path.is_file():
                yield path, path.read_text(errors="replace")


@pytest.fixture
def rack(tmp_path: Path) -> Rack:
    made = Rack(tmp_path)
    made.play(WRITE)
    # Nobody answers there, but the key of who would is known.
    (tmp_path / "stacks" / "sandbox" / "known_hosts").write_text("[127.0.0.1]:1 ssh-ed25519 AAAA\n")
    return made


def wait_for(what: Callable[[], bool], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_check_says_what_the_run_then_changes_and_a_second_run_changes_nothing(rack: Rack) -> None:
    foreseen = rack.json("--check", "--diff", code=1)
    assert list(rack.out.iterdir()) == []
    assert not (rack.kept / "last.json").exists()
    assert foreseen["check"] is True
    real = rack.json("--diff")
    assert sorted(path.name for path in rack.out.iterdir()) == sorted(f"out-{name}" for name in HOSTS)
    assert real["changes"] == foreseen["changes"]
    assert {name: stats["changed"] for name, stats in real["hosts"].items()} == dict.fromkeys(HOSTS, 1)
    assert "+new" in real["changes"][0]["diffs"][0]["text"]
    again = rack.json()
    assert again["changed"] == 0
    assert set(again["hosts"]["dgx01"]) == {"ok", "changed", "failed", "unreachable", "skipped"}
    assert again["duration_s"] > 0
    assert rack.json("--check")["changed"] == 0


def test_a_host_out_of_reach_in_mid_play_leaves_the_others_to_finish_and_resume_completes_it(
    rack: Rack,
) -> None:
    unreachable = """
    - name: Lose the connection of one host
      ansible.builtin.set_fact:
        ansible_connection: ssh
        ansible_host: 127.0.0.1
        ansible_port: 1
      when: inventory_hostname == 'dgx02' and lookup('ansible.builtin.env', 'TEST_LOSE') == '1'
"""
    rack.play(unreachable, COPY)
    result = rack.json(code=4, TEST_LOSE="1")
    assert result["failed_hosts"] == ["dgx02"]
    assert result["hosts"]["dgx02"]["unreachable"] == 1
    assert result["failures"][0]["kind"] == "unreachable"
    written = {path.name for path in rack.out.iterdir()}
    assert written == {"out-dgx01", "out-ctl01", "out-login01"}
    assert rack.last["hosts"]["dgx02"] == "unreachable"
    resumed = rack.json("--resume")
    assert list(resumed["hosts"]) == ["dgx02"]
    assert (rack.out / "out-dgx02").is_file()
    nothing = rack.run("--resume")
    assert (nothing.returncode, "nothing to resume" in nothing.stdout) == (0, True)


SLEEP = """
    - name: Take a while
      ansible.builtin.command: sleep 60
      changed_when: false
      when: lookup('ansible.builtin.env', 'TEST_SLOW') == '1'
"""
REFUSE = """
    - name: Refuse one host
      ansible.builtin.assert:
        that: inventory_hostname != 'ctl01' or lookup('ansible.builtin.env', 'TEST_SLOW') != '1'
        fail_msg: no room left
"""


def test_a_run_that_is_killed_is_taken_up_by_the_next_and_leaves_nothing_at_work(rack: Rack) -> None:
    rack.play(WRITE, REFUSE, SLEEP)
    process = subprocess.Popen(
        rack.command("--skip-preflight", "--yes"),
        cwd=rack.root,
        env=rack.env | {"TEST_SLOW": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        journals = rack.kept / "runs"
        wait_for(lambda: any("no room left" in path.read_text() for path in journals.glob("*.jsonl")))
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    last = rack.last
    assert last["complete"] is False
    resumed = rack.json("--resume")
    assert set(resumed["hosts"]) == set(HOSTS)
    assert resumed["changed"] == 0
    assert marked(last["token"]) == []
    assert rack.last["complete"] is True
    assert rack.run("--resume").returncode == 0


def test_ansible_that_is_killed_is_told_and_the_next_run_goes_on(rack: Rack) -> None:
    rack.play(WRITE, SLEEP)
    process = subprocess.Popen(
        rack.command("--skip-preflight", "--yes", "--json"),
        cwd=rack.root,
        env=rack.env | {"TEST_SLOW": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: len(list(rack.out.iterdir())) == len(HOSTS))
        playbook = [each for each in marked(rack.last["token"]) if b"ansible-playbook" in _arguments(each)]
        assert playbook
        os.kill(min(playbook), signal.SIGKILL)
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    result = json.loads(out.splitlines()[-1])
    assert process.returncode == 4
    assert "killed" in result["cut_short"]
    assert set(result["hosts"]) == set(HOSTS)
    assert rack.last["complete"] is False
    assert marked(rack.last["token"]) == []
    assert set(rack.json("--resume")["hosts"]) == set(HOSTS)


def _arguments(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def test_no_secret_is_shown_kept_or_passed_as_an_argument(rack: Rack) -> None:
    leak = """
    - name: Say the key
      ansible.builtin.command: "true"
      register: said
      changed_when: true
    - name: Fail with the key
      ansible.builtin.fail:
        msg: "the key is {{{{ munge_key }}}} and its base64 {{{{ munge_key | b64encode }}}}"
      when: inventory_hostname == 'ctl01'
    - name: Write the key
      ansible.builtin.copy:
        content: "{{{{ munge_key }}}}"
        dest: "{folder}/key-{{{{ inventory_hostname }}}}"
        mode: "0400"
    - name: Show the arguments of all processes
      ansible.builtin.shell: cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' > {folder}/arguments
      changed_when: true
      when: inventory_hostname == 'dgx01'
"""
    rack.play(leak)
    done = rack.run("--yes", "--diff", "--json")
    assert done.returncode == 4
    texts = [("stdout", done.stdout), ("stderr", done.stderr), *rack.everything_kept()]
    for place, text in texts:
        assert KEY not in text, place
        assert PASSWORD not in text, place
        assert KEY[:24].encode().hex() not in text
    import base64

    assert all(base64.b64encode(KEY.encode()).decode()[:40] not in text for _, text in texts)
    assert "<secret>" in done.stdout
    assert (rack.out / "key-dgx01").read_text() == KEY
    assert KEY not in (rack.out / "arguments").read_text()
    for path, _ in rack.everything_kept():
        if path.parent.name == "runs" or path.parent == rack.kept:
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_missing_secrets_are_one_finding_before_anything_runs(rack: Rack) -> None:
    done = rack.run("--yes", GPUFLEET_SECRET_MUNGE_KEY="", GPUFLEET_SECRET_DATABASE_PASSWORD="short")
    assert done.returncode == 2
    assert "GPUFLEET_SECRET_MUNGE_KEY_LAB is missing" in done.stderr
    assert "GPUFLEET_SECRET_DATABASE_PASSWORD_LAB has 5 characters" in done.stderr
    assert "gpufleet secrets new sandbox" in done.stderr
    assert "short" not in done.stderr.replace("password", "")
    assert list(rack.out.iterdir()) == []


def test_a_host_whose_key_is_not_known_is_refused_before_anything_runs(rack: Rack) -> None:
    (rack.root / "stacks" / "sandbox" / "known_hosts").unlink()
    done = rack.run("--yes", away="dgx02")
    assert done.returncode == 2
    assert "[127.0.0.1]:1" in done.stderr
    assert "gpufleet hostkeys sandbox" in done.stderr
    assert list(rack.out.iterdir()) == []


def test_a_limit_and_a_site_choose_hosts_and_roles_are_known_by_name(rack: Rack) -> None:
    assert set(rack.json("--limit", "dgx*,!dgx02")["hosts"]) == {"dgx01"}
    assert set(rack.json("--site", "lab", "--limit", "rack_login")["hosts"]) == {"login01"}
    for arguments, says in (
        (("--limit", "nobody"), "no rack host matches 'nobody'"),
        (("--site", "moon"), "no rack site 'moon'"),
        (("--only", "mung"), "did you mean 'munge'?"),
        (("--transport", "carrier-pigeon"), "none of auto, ssh, mitogen"),
    ):
        done = rack.run("--yes", *arguments)
        assert done.returncode == 2, says
        assert says in done.stderr


def test_the_first_run_asks_and_a_no_changes_nothing(rack: Rack) -> None:
    done = rack.run()
    assert done.returncode == 1
    assert "first run that changes the 4 hosts" in done.stderr
    assert list(rack.out.iterdir()) == []
    rack.json()
    assert rack.run().returncode == 0


def test_two_runs_at_once_are_refused(rack: Rack) -> None:
    import fcntl

    rack.json()
    with (rack.kept / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = rack.run("--yes")
    assert done.returncode == 1
    assert "another run on the hosts of sandbox is at work" in done.stderr


def _with_preflight(rack: Rack, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        rack.command(*arguments),
        cwd=rack.root,
        env=rack.env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_host_with_a_fault_of_its_hardware_is_shown_and_set_up_all_the_same(rack: Rack) -> None:
    """This machine has no eight H100s."""
    done = _with_preflight(rack, "--yes", "--json")
    result = json.loads(done.stdout.splitlines()[-1])
    found = {item["check"] for item in result["preflight"] if item["host"] == "dgx01"}
    assert {"gpus", "nics"} <= found
    assert not {"gpus", "nics", "clock"} & {item["task"] for item in result["failures"]}
    assert {path.name for path in rack.out.iterdir()} == {
        f"out-{name}" for name in HOSTS if name not in result["failed_hosts"]
    }


def test_a_host_of_a_system_that_no_role_is_written_for_is_left_alone(rack: Rack) -> None:
    module = rack.root / "ansible" / "roles" / "preflight" / "library" / "preflight_measure.py"
    text = module.read_text()
    assert '"id": found["ID"]' in text
    module.write_text(text.replace('"id": found["ID"]', '"id": "plan9"'))
    done = _with_preflight(rack, "--yes", "--json")
    result = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 4
    assert result["failed_hosts"] == list(HOSTS)
    assert all(
        "is not a supported system" in item["message"] for item in result["failures"] if item["task"] == "os"
    )
    assert list(rack.out.iterdir()) == []
    assert set(rack.last["hosts"].values()) == {"failed"}


def test_hosts_without_room_are_left_out_the_others_go_on_and_preflight_is_not_counted(rack: Rack) -> None:
    (rack.kept / "host_vars").mkdir(parents=True)
    # What nobody measured is not known to have room.
    (rack.kept / "host_vars" / "dgx02.yml").write_text('preflight_paths: ["/"]\n')
    done = _with_preflight(rack, "--yes", "--json", "--check")
    assert list(rack.out.iterdir()) == []
    foreseen = json.loads(done.stdout.splitlines()[-1])
    done = _with_preflight(rack, "--yes", "--json")
    result = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 4
    for each in (foreseen, result):
        assert each["failed_hosts"] == ["dgx02"]
        assert [(item["host"], item["role"], item["task"]) for item in each["failures"]] == [
            ("dgx02", "preflight", "disk")
        ]
        assert each["changes"][0]["hosts"] == [name for name in sorted(HOSTS) if name != "dgx02"]
    assert {path.name for path in rack.out.iterdir()} == {f"out-{name}" for name in HOSTS if name != "dgx02"}
    assert rack.last["hosts"] == {name: "failed" if name == "dgx02" else "done" for name in HOSTS}
    alone = rack.json()
    assert alone["hosts"]["dgx01"] == result["hosts"]["dgx01"] | {"changed": 0}


def test_roles_that_were_named_run_where_preflight_that_was_named_with_them_lets_them(rack: Rack) -> None:
    site = rack.root / "ansible" / "playbooks" / "site.yml"
    site.write_text(site.read_text().replace("  tasks:", "  tags: [munge]\n  tasks:"))
    (rack.kept / "host_vars").mkdir(parents=True)
    (rack.kept / "host_vars" / "dgx02.yml").write_text('preflight_paths: ["/"]\n')
    done = _with_preflight(rack, "--yes", "--json", "--only", "preflight,munge")
    assert json.loads(done.stdout.splitlines()[-1])["failed_hosts"] == ["dgx02"]
    assert {path.name for path in rack.out.iterdir()} == {f"out-{name}" for name in HOSTS if name != "dgx02"}


def test_a_run_that_is_killed_while_it_measures_has_refused_nobody(rack: Rack) -> None:
    module = rack.root / "ansible" / "roles" / "preflight" / "library" / "preflight_measure.py"
    begun = rack.root / "begun"
    wait = f"def main():\n    Path({str(begun)!r}).touch()\n    time.sleep(60)\n"
    module.write_text(module.read_text().replace("def main():\n", wait))
    process = subprocess.Popen(
        rack.command("--yes", "--json"), cwd=rack.root, env=rack.env, stdout=subprocess.PIPE, text=True
    )
    try:
        wait_for(begun.exists)
        os.kill(
            min(each for each in marked(rack.last["token"]) if b"ansible-playbook" in _arguments(each)), 9
        )
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    result = json.loads(out.splitlines()[-1])
    assert process.returncode == 4
    assert "killed" in result["cut_short"]
    assert result["failures"] == result["preflight"] == []
    assert set(rack.last["hosts"].values()) == {"pending"}
    assert rack.last["complete"] is False
    assert marked(rack.last["token"]) == []


def test_the_page_stands_alone_and_escapes_what_hosts_said(rack: Rack) -> None:
    rack.play(WRITE.replace("new\\n", "<script>alert(1)</script>\\n"))
    result = rack.json("--diff")
    page = Path(result["page"]).read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page and "src=" not in page and "@import" not in page
    assert "prefers-color-scheme: dark" in page


def test_preflight_alone_shows_all_hosts_in_one_table_asks_nothing_and_is_no_run_to_resume(
    rack: Rack,
) -> None:
    done = _with_preflight(rack, "--only", "preflight")
    assert done.returncode == 4
    assert "dgx[01-02]: gpus: 0 GPUs on the PCI bus instead of 8" in done.stdout
    assert "fix: power-cycle the node" in done.stdout
    assert list(rack.out.iterdir()) == []
    assert not (rack.kept / "last.json").exists()


def test_the_transport_is_the_one_that_was_asked_for(rack: Rack) -> None:
    strategy = "{{{{ lookup('ansible.builtin.config', 'DEFAULT_STRATEGY') }}}}"
    cores = "{{{{ lookup('ansible.builtin.pipe', 'nproc') }}}}"
    rack.play(COPY.replace("new\\n", f"{strategy} {cores}\\n"))
    available = len(os.sched_getaffinity(0))
    rack.json()
    assert (rack.out / "out-dgx01").read_text() == f"linear {available}\n"
    rack.json("--transport", "mitogen")
    assert (rack.out / "out-dgx01").read_text() == f"mitogen_unpinned {available}\n"


def test_ansible_may_open_files_for_a_thousand_hosts(rack: Rack) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    allowed = 65_536 if hard == resource.RLIM_INFINITY else min(65_536, hard)
    rack.play(WRITE.replace("new\\n", "{{{{ lookup('ansible.builtin.pipe', 'ulimit -n') }}}}\\n"))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    try:
        rack.json()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert (rack.out / "out-dgx01").read_text() == f"{allowed}\n"
