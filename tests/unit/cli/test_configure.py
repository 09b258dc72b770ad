"""`gpufleet configure` as a process, on hosts that are this machine, with a test playbook."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from gpufleet.racks.stragglers import marked_processes
from tests.unit.cli.configuring import COPY, HOSTS, KEY, PASSWORD, WRITE, Rack, wait_for


def test_check_run_matches_the_run_and_a_second_run_changes_nothing(rack: Rack) -> None:
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


def test_unreachable_host_does_not_stop_the_others_and_resume_completes_it(
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
    assert (nothing.returncode, "no hosts of the last run to resume" in nothing.stdout) == (0, True)


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


# mitogen's workers change their process titles, which must not hide them.
@pytest.mark.parametrize(("transport", "named"), [("ssh", b"sleep"), ("mitogen", b"worker:")])
def test_next_run_completes_a_killed_run_and_no_process_is_left(
    rack: Rack, transport: str, named: bytes
) -> None:
    rack.play(WRITE, REFUSE, SLEEP)
    temporary = rack.root / "tmp"
    temporary.mkdir()
    rack.env["TMPDIR"] = str(temporary)
    process = subprocess.Popen(
        rack.command("--skip-preflight", "--yes", "--transport", transport),
        cwd=rack.root,
        env=rack.env | {"TEST_SLOW": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        journals = rack.kept / "runs"
        wait_for(lambda: any("no room left" in path.read_text() for path in journals.glob("*.jsonl")))
        wait_for(lambda: any(name.startswith(named) for name in rack.at_work()), 50)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    last = rack.last
    assert last["complete"] is False
    # It has the results of tasks, unredacted.
    assert [each.stat().st_mode & 0o077 for each in temporary.glob("gpufleet-ansible-*")] == [0]
    resumed = rack.json("--resume")
    assert set(resumed["hosts"]) == set(HOSTS)
    assert resumed["changed"] == 0
    assert marked_processes(last["token"]) == []
    assert list(temporary.glob("gpufleet-ansible-*")) == []
    assert rack.last["complete"] is True
    assert rack.run("--resume").returncode == 0


def test_killed_ansible_is_reported_and_the_next_run_continues(rack: Rack) -> None:
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
        result = rack.kill_ansible(process)
    finally:
        process.kill()
    assert "killed" in result["cut_short"]
    assert set(result["hosts"]) == set(HOSTS)
    assert rack.last["complete"] is False
    assert marked_processes(rack.last["token"]) == []
    assert set(rack.json("--resume")["hosts"]) == set(HOSTS)


def test_no_secret_is_shown_stored_or_passed_as_an_argument(rack: Rack) -> None:
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


def test_host_with_an_unknown_key_is_refused_before_anything_runs(rack: Rack) -> None:
    (rack.root / "stacks" / "sandbox" / "known_hosts").unlink()
    done = rack.run("--yes", away="dgx02")
    assert done.returncode == 2
    assert "[127.0.0.1]:1" in done.stderr
    assert "gpufleet hostkeys sandbox" in done.stderr
    assert list(rack.out.iterdir()) == []


def test_limit_and_site_select_hosts_and_roles_have_names(rack: Rack) -> None:
    assert set(rack.json("--limit", "dgx*,!dgx02")["hosts"]) == {"dgx01"}
    assert set(rack.json("--site", "lab", "--limit", "rack_login")["hosts"]) == {"login01"}
    for arguments, says in (
        (("--limit", "nobody"), "no rack host matches 'nobody'"),
        (("--site", "moon"), "no rack site 'moon'"),
        (("--only", "mung"), "did you mean 'munge'?"),
        (("--transport", "carrier-pigeon"), "not one of auto, ssh, mitogen"),
    ):
        done = rack.run("--yes", *arguments)
        assert done.returncode == 2, says
        assert says in done.stderr


def test_first_run_asks_and_no_changes_nothing(rack: Rack) -> None:
    done = rack.run()
    assert done.returncode == 1
    assert "first run that changes the 4 hosts" in done.stderr
    assert list(rack.out.iterdir()) == []
    rack.json()
    assert rack.run().returncode == 0


def test_concurrent_runs_are_refused(rack: Rack) -> None:
    import fcntl

    rack.json()
    with (rack.kept / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = rack.run("--yes")
    assert done.returncode == 1
    assert "another run on the hosts of sandbox is in progress" in done.stderr


def test_page_is_self_contained_and_escapes_host_output(rack: Rack) -> None:
    rack.play(WRITE.replace("new\\n", "<script>alert(1)</script>\\n"))
    result = rack.json("--diff")
    page = Path(result["page"]).read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "://" not in page and "src=" not in page and "@import" not in page
    assert "prefers-color-scheme: dark" in page


def test_requested_transport_is_used(rack: Rack) -> None:
    strategy = "{{{{ lookup('ansible.builtin.config', 'DEFAULT_STRATEGY') }}}}"
    cores = "{{{{ lookup('ansible.builtin.pipe', 'nproc') }}}}"
    rack.play(COPY.replace("new\\n", f"{strategy} {cores}\\n"))
    available = len(os.sched_getaffinity(0))
    rack.json()
    assert (rack.out / "out-dgx01").read_text() == f"linear {available}\n"
    rack.json("--transport", "mitogen")
    assert (rack.out / "out-dgx01").read_text() == f"mitogen_unpinned {available}\n"


def test_open_file_limit_allows_a_thousand_hosts(rack: Rack) -> None:
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
