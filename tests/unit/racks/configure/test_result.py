"""Recorded events of a run, and their presentation."""

from __future__ import annotations

import io
import re
import tracemalloc
from pathlib import Path

import pytest
from rich.console import Console

from gpufleet.racks.configure.redact import Redactor
from gpufleet.racks.configure.result import Collector, ConfigureResult, Failure, Notice, result_to_json
from gpufleet.racks.diffs import Diff
from gpufleet.racks.events import HostStats, TaskEvent
from gpufleet.racks.preflight.verdict import PreflightVerdict
from gpufleet.report.configure_html import configure_page
from gpufleet.report.configure_text import print_configure

SECRET = "planted-secret-value"


def changed(host, text="+new", role="base", task="Write"):
    return TaskEvent("changed", host, task, role, 0.5, diffs=(Diff("/etc/x", text),))


@pytest.fixture
def collector():
    return Collector(Redactor([SECRET]))


def test_equal_changes_of_hosts_are_merged_and_others_separate(collector):
    for host in ("b", "a"):
        collector(changed(host))
    collector(changed("c", "+other"))
    assert [(item.hosts, item.diffs[0].text) for item in collector.changes] == [
        (("a", "b"), "+new"),
        (("c",), "+other"),
    ]


def test_counts_equal_those_of_ansible_where_changed_is_ok(collector):
    collector(TaskEvent("started", "a", "x", "base"))
    collector(changed("a"))
    collector(TaskEvent("skipped", "a", "y", "base"))
    collector(TaskEvent("unreachable", "b", "y", "base", message="gone"))
    assert collector.counts == {
        "a": HostStats(ok=1, changed=1, skipped=1),
        "b": HostStats(unreachable=1),
    }
    assert collector.role_seconds == {"base": 0.5}


def test_rescued_failure_is_not_a_failure(collector):
    collector(TaskEvent("failed", "a", "try", "base", message="handled"))
    collector(TaskEvent("failed", "b", "try", "base", message=f"key {SECRET}"))
    (failure,) = collector.failures({"a": HostStats(ok=3), "b": HostStats(failed=1)})
    assert (failure.host, failure.message) == ("b", "key <secret>")


def test_memory_grows_with_changes_and_not_with_tasks_times_hosts(collector):
    hosts = [f"dgx{number:03}" for number in range(500)]
    for host in hosts:
        collector(changed(host, "+" + "x" * 3000))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for task in range(200):
        for host in hosts:
            collector(TaskEvent("ok", host, f"task {task}", "base", 0.01))
        collector(changed(hosts[task], "+" + "x" * 3000))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 500_000


def result(**changes):
    values = {
        "environment": "prod",
        "run": "20261121T120000-ab12",
        "check": True,
        "hosts": {f"dgx{n:03}": HostStats(ok=9, changed=1) for n in range(1, 4)}
        | {"ctl01": HostStats(failed=1)},
        "duration_s": 12.3456,
        "changes": (),
        "failures": (Failure("ctl01", "failed", "munge", "Start it", "<b>no</b> [bold]room[/bold]"),),
        "verdicts": (
            PreflightVerdict("ctl01", "disk", "fail", "/ 1 GiB", "/ 20 GiB", "too small", "add space"),
        ),
        "role_seconds": {"base": 2.0, "munge": 1.0},
        "journal": Path("/j"),
        "page": Path("/p"),
    }
    return ConfigureResult(**values | changes)


def shown(made, **options):
    text = io.StringIO()
    print_configure(made, Console(file=text, width=120, highlight=False), **{"diffs": True} | options)
    return text.getvalue()


def test_report_groups_changes_by_role_and_hosts_by_range(collector):
    for host in ("dgx001", "dgx002", "dgx003"):
        collector(changed(host))
    text = shown(result(changes=collector.changes))
    assert "base would change:" in text
    assert "~ Write: dgx[001-003]" in text
    assert "      /etc/x\n      +new\n" in text
    assert "dgx[001-003] (3)" in text
    assert "failed: ctl01: munge: Start it: <b>no</b> [bold]room[/bold]" in text
    assert "add space" in text
    assert "prod: 4 hosts, 3 tasks would change something, 1 hosts failed, 12s" in text
    assert "+new" not in shown(result(changes=collector.changes), diffs=False)


def test_equal_failures_notices_and_findings_are_one_line_for_all_hosts():
    hosts = [f"gpu{number}" for number in range(1, 5)]
    made = result(
        hosts=dict.fromkeys(hosts, HostStats(failed=1)),
        failures=tuple(Failure(host, "failed", "base", "Add", f"{host} has no route") for host in hosts),
        notices=tuple(Notice(host, "pyxis_enroot", "not installed") for host in hosts),
        verdicts=tuple(
            PreflightVerdict(host, "cpu", "fail", "4", "224", "1 socket", "look at it") for host in hosts
        ),
    )
    text, page = shown(made), configure_page(made)
    for reported in (
        "failed: gpu[1-4]: base: Add: <host> has no route",
        "notice: gpu[1-4]: pyxis_enroot: not installed",
        "fail gpu[1-4]: cpu: 1 socket",
    ):
        assert text.count(reported) == 1
    assert not re.search(r"gpu\d\b", text.replace("<host>", ""))
    before_hosts = page.partition("<h2>Hosts</h2>")[0]
    assert before_hosts.count('<th scope="row">gpu[1-4]</th>') == 3
    assert not re.search(r">gpu\d<", before_hosts)
    assert [item["host"] for item in result_to_json(made)["failures"]] == hosts
    assert [item["host"] for item in result_to_json(made)["notices"]] == hosts
    assert [item["host"] for item in result_to_json(made)["preflight"]] == hosts


def test_notice_is_collected_without_secrets(collector):
    collector(TaskEvent("ok", "a", "Report", "rdma", notice=f"reboot for {SECRET}"))
    assert collector.notices == [Notice("a", "rdma", "reboot for <secret>")]


def test_long_diff_is_truncated_on_screen_and_complete_on_the_page(collector):
    collector(changed("a", "\n".join(f"+line {number}" for number in range(40))))
    made = result(changes=collector.changes)
    assert "28 more lines" in shown(made)
    assert "+line 39" not in shown(made)
    assert "+line 39" in configure_page(made)


def test_page_has_everything_and_escapes_it():
    page = configure_page(result())
    assert "&lt;b&gt;no&lt;/b&gt;" in page and "<b>no" not in page
    for word in (
        "ctl01",
        "too small",
        "add space",
        "Nothing: every host",
        "Time by role",
        '<html lang="en">',
    ):
        assert word in page
    assert page.count("<caption>") == 3
    assert "ended early" not in page.lower()
    assert "Cut short: killed" in configure_page(result(cut_short="killed"))


def test_page_of_an_empty_run_is_complete():
    page = configure_page(result(hosts={}, failures=(), verdicts=(), role_seconds={}))
    assert "What failed" not in page and "Preflight" not in page and "<svg" not in page
    assert page.rstrip().endswith("</html>")


def test_page_is_well_formed():
    from html.parser import HTMLParser

    open_tags: list[str] = []

    class Checker(HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag != "meta":
                open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

    Checker().feed(configure_page(result()))
    assert open_tags == []


def test_json_keeps_the_contract():
    document = result_to_json(result())
    assert document["hosts"]["dgx001"] == {"ok": 9, "changed": 1, "failed": 0, "unreachable": 0, "skipped": 0}
    assert document["duration_s"] == 12.346
    assert document["failed_hosts"] == ["ctl01"]
    assert document["cut_short"] is None
    assert document["preflight"][0]["check"] == "disk"
