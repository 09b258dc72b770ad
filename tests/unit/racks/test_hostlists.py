"""Hosts as ranges, and equal findings once for all hosts that have them."""

from __future__ import annotations

from gpufleet.racks.hostlists import fold_equal


def test_texts_that_differ_only_in_the_host_s_own_name_are_equal() -> None:
    findings = [(f"gpu{n}", ("fail", f"gpu{n} is down, run x --limit gpu{n}")) for n in (1, 2, 3, 12)]
    assert fold_equal(findings) == [("gpu[1-3],gpu12", ("fail", "<host> is down, run x --limit <host>"))]


def test_finding_of_a_single_host_keeps_its_name() -> None:
    assert fold_equal([("gpu1", ("gpu1 is down",)), ("gpu2", ("ok",))]) == [
        ("gpu1", ("gpu1 is down",)),
        ("gpu2", ("ok",)),
    ]


def test_names_of_other_hosts_keep_findings_apart() -> None:
    found = fold_equal([("gpu1", ("gpu10 is down",)), ("gpu2", ("gpu20 is down",))])
    assert [texts for _, texts in found] == [("gpu10 is down",), ("gpu20 is down",)]
