"""Preflight in `gpufleet configure`: reported hosts, excluded hosts, and the others continue."""

from __future__ import annotations

import json
import subprocess

from gpufleet.racks.stragglers import marked_processes
from tests.unit.cli.configuring import HOSTS, Rack, wait_for


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


def _make_room_on_all_but_dgx02(rack: Rack) -> None:
    for name, needed in (("group_vars/all.yml", 0.001), ("host_vars/dgx02.yml", 10**6)):
        (rack.kept / name).parent.mkdir(parents=True)
        (rack.kept / name).write_text(f"preflight_min_free_gib: {{ /: {needed} }}\n")


def test_host_with_a_hardware_fault_is_reported_and_configured(rack: Rack) -> None:
    """This machine has no eight H100s."""
    done = _with_preflight(rack, "--yes", "--json")
    result = json.loads(done.stdout.splitlines()[-1])
    found = {item["check"] for item in result["preflight"] if item["host"] == "dgx01"}
    assert {"gpus", "nics"} <= found
    assert not {"gpus", "nics", "clock"} & {item["task"] for item in result["failures"]}
    assert {path.name for path in rack.out.iterdir()} == {
        f"out-{name}" for name in HOSTS if name not in result["failed_hosts"]
    }


def test_host_of_an_unsupported_system_is_not_changed(rack: Rack) -> None:
    module = rack.root / "ansible" / "plugins" / "modules" / "preflight_measure.py"
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


def test_hosts_without_disk_space_are_skipped_and_preflight_is_not_counted(rack: Rack) -> None:
    _make_room_on_all_but_dgx02(rack)
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
    single = rack.json()
    assert single["hosts"]["dgx01"] == result["hosts"]["dgx01"] | {"changed": 0}


def test_selected_roles_run_on_hosts_that_pass_the_selected_preflight(rack: Rack) -> None:
    site = rack.root / "ansible" / "playbooks" / "site.yml"
    site.write_text(site.read_text().replace("  tasks:", "  tags: [munge]\n  tasks:"))
    _make_room_on_all_but_dgx02(rack)
    done = _with_preflight(rack, "--yes", "--json", "--only", "preflight,munge")
    assert json.loads(done.stdout.splitlines()[-1])["failed_hosts"] == ["dgx02"]
    assert {path.name for path in rack.out.iterdir()} == {f"out-{name}" for name in HOSTS if name != "dgx02"}


def test_run_killed_during_preflight_refuses_no_host(rack: Rack) -> None:
    module = rack.root / "ansible" / "plugins" / "modules" / "preflight_measure.py"
    begun = rack.root / "begun"
    wait = f"def main():\n    Path({str(begun)!r}).touch()\n    time.sleep(60)\n"
    module.write_text(module.read_text().replace("def main():\n", wait))
    process = subprocess.Popen(
        rack.command("--yes", "--json"), cwd=rack.root, env=rack.env, stdout=subprocess.PIPE, text=True
    )
    try:
        wait_for(begun.exists)
        result = rack.kill_ansible(process)
    finally:
        process.kill()
    assert "killed" in result["cut_short"]
    assert result["failures"] == result["preflight"] == []
    assert set(rack.last["hosts"].values()) == {"pending"}
    assert rack.last["complete"] is False
    assert marked_processes(rack.last["token"]) == []


def test_preflight_only_shows_one_table_asks_nothing_and_cannot_be_resumed(
    rack: Rack,
) -> None:
    done = _with_preflight(rack, "--only", "preflight")
    assert done.returncode == 4
    assert "dgx[01-02]: gpus: 0 GPUs on the PCI bus instead of 8" in done.stdout
    assert "fix: power-cycle the node" in done.stdout
    assert list(rack.out.iterdir()) == []
    assert not (rack.kept / "last.json").exists()
