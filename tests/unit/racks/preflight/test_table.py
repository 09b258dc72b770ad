"""The table: one row for equal hosts, one line for equal faults."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gpufleet.racks.hostlists import fold_hosts
from gpufleet.racks.preflight import evaluate
from gpufleet.racks.preflight.table import preflight_table


def shown(verdicts):
    text = io.StringIO()
    Console(file=text, width=250).print(preflight_table(verdicts))
    return text.getvalue()


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["dgx001", "dgx002", "dgx003"], "dgx[001-003]"),
        (["dgx003", "dgx001"], "dgx[001,003]"),
        (["dgx1", "dgx2", "dgx10"], "dgx[1-2],dgx10"),
        (["ctl01"], "ctl01"),
        (["rack2-a1", "rack2-a2"], "rack2-a[1-2]"),
        (["head", "dgx01"], "head,dgx01"),
        ([], ""),
    ],
)
def test_hosts_are_folded_into_ranges(names, folded):
    assert fold_hosts(names) == folded


def test_equal_hosts_share_a_row_and_a_fault_is_printed_once(healthy, expected):
    hosts = {f"dgx{n:03}": healthy() for n in range(1, 65)}
    hosts["dgx007"]["gpus"].pop()
    del hosts["dgx009"]
    wanted = {f"dgx{n:03}": expected() for n in range(1, 65)}
    text = shown(evaluate(hosts, wanted))
    assert "dgx[001-006,008,010-064] (62)" in text
    assert text.count("7 GPUs on the PCI bus instead of 8") == 1
    assert "fail dgx009: measured: the host gave no measurements" in text
    assert len(text.splitlines()) < 12


def test_hosts_that_differ_only_in_free_space_share_a_row(healthy, expected):
    hosts = {"dgx001": healthy(), "dgx002": healthy()}
    hosts["dgx002"]["disks"]["/"]["free_bytes"] //= 2
    assert "dgx[001-002] (2)" in shown(evaluate(hosts, dict.fromkeys(hosts, expected())))


def test_no_host_is_truncated_on_a_narrow_terminal(healthy, expected):
    names = [f"dgx{n:03}" for n in range(1, 99, 2)]
    hosts = {name: healthy() for name in names}
    text = io.StringIO()
    Console(file=text, width=100).print(preflight_table(evaluate(hosts, dict.fromkeys(hosts, expected()))))
    assert "…" not in "".join(line[:14] for line in text.getvalue().splitlines())
    assert "097" in text.getvalue()


def test_text_in_brackets_is_shown_unchanged(healthy, expected):
    host = healthy(os={"id": "x", "version": "1", "name": "[red]Odd[/red]", "dgx_os": None})
    assert "[red]Odd[/red]" in shown(evaluate({"a": host}, {"a": expected()}))


def test_fleet_without_faults_has_nothing_below_the_table(healthy, expected):
    assert "fix:" not in shown(evaluate({"a": healthy()}, {"a": expected()}))
