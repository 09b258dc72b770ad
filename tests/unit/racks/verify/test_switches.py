"""What a subnet manager's host reads of the fabric: links, ports of unknown speed, and faulty switches."""

from __future__ import annotations

from gpufleet.racks.verify.result import Result
from gpufleet.racks.verify.roles import EVALUATORS
from gpufleet.racks.verify.switches import broken_ports, parse_ports, switch_faults
from tests.captures import read_capture

from .samples import LINKS, measured


def judged(**changes: object) -> dict[str, Result]:
    return {item.check: item for item in EVALUATORS["subnet_manager"](measured("subnet_manager", changes))}


def test_a_healthy_fabric_passes_without_ibswinfo() -> None:
    assert {check: item.status for check, item in judged(switches=(127, "")).items()} == dict.fromkeys(
        ("service", "master", "links", "ports"), "pass"
    )


def test_an_empty_fabric_is_a_fault() -> None:
    assert judged(ports="# Topology file\n")["links"].message == "the fabric has no links"


def test_a_port_of_unknown_speed_is_a_warning_and_one_without_a_cable_is_not() -> None:
    result = judged(ports=LINKS + "SW     4 37 0x2c5eab0300b87b40 4x ???          'leaf01'\n")["ports"]
    assert (result.status, result.message) == ("warn", "leaf01 port 37 has an unknown speed and no peer")


def test_a_speed_that_ibnetdiscover_does_not_know_is_no_fault_of_a_link() -> None:
    assert broken_ports(parse_ports(LINKS.replace("NDR", "???"))) == []


def test_a_broken_port_of_a_real_fabric_is_found() -> None:
    ports = parse_ports(read_capture("infiniband/ibnetdiscover-p_edr.txt"))
    assert (len(ports), sum(port.linked for port in ports)) == (9, 7)
    assert broken_ports(ports) == ["ib-i4l1s01 port 37 has an unknown speed and no peer"]


def test_a_topology_without_ports_is_empty() -> None:
    assert parse_ports(read_capture("infiniband/ibnetdiscover_bad.txt")) == []


def test_faults_of_real_switches_are_found() -> None:
    assert switch_faults("switch lid-7\n" + read_capture("infiniband/ibswinfo_fan-error.txt")) == [
        "lid-7: fan status is ERROR"
    ]
    assert switch_faults("switch lid-8\n" + read_capture("infiniband/ibswinfo_3.txt")) == [
        "lid-8: PSU1 DC power is ERROR",
        "lid-8: PSU1 fan status is ERROR",
    ]
    assert switch_faults("switch lid-9\n" + read_capture("infiniband/ibswinfo_missing.txt")) == [
        "lid-9: PSU1 status is not shown",
        "lid-9: fan#1 (rpm) is not shown",
    ]


def test_a_faulty_switch_is_a_warning() -> None:
    text = "switch lid-7\nfan status         | ERROR\nfan#1 (rpm)        | 8493\n"
    result = judged(switches=text)["switches"]
    assert (result.status, result.message) == ("warn", "lid-7: fan status is ERROR")
