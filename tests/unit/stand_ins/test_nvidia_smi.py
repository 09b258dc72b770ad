"""nvidia-smi of the racks in tests prints what the real tool printed on an H100 and an H200, driver 580."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, fromstring

import pytest

from tests.captures import H100, H200, load_capture, read_capture

from .conftest import Host

BOTH = pytest.mark.parametrize(("host", "name"), [("dgx-h100", H100), ("dgx-h200", H200)], indirect=["host"])
# Fields whose value is another state, not another form: a DGX without Fabric Manager, and a virtual machine.
OF_STATE = {
    *("display_attached", "persistence_mode", "fabric.state", "pcie.link.gen.hostmax"),
    *("clocks_event_reasons.gpu_idle", "clocks_throttle_reasons.gpu_idle"),
}


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]


@BOTH
def test_mig_profiles_and_places_are_those_of_the_real_tool(host: Host, name: str) -> None:
    for option in ("lgip", "lgipp"):
        done = host.run("nvidia_smi", "mig", f"-{option}", "-i", "0")
        assert (done.returncode, done.stdout) == (0, read_capture(f"{name}/mig-{option}.txt"))


@BOTH
def test_instances_outside_mig_mode_are_none_and_no_failure(host: Host, name: str) -> None:
    codes = load_capture(f"{name}/commands.json")
    for option in ("lgi", "lci", "lcip"):
        done = host.run("nvidia_smi", "mig", f"-{option}")
        assert done.returncode == codes[f"mig-{option}.txt"]["rc"]
        assert done.stdout == read_capture(f"{name}/mig-{option}.txt")


def form(value: str) -> str:
    """A value without its numbers: `71.84 W` is `N W`."""
    value = re.sub(r"GPU-[0-9a-f-]{36}|0x[0-9A-Fa-f]+", "ID", value)
    return re.sub(r"\d[\d.:/A-F]*", "N", value)


@BOTH
def test_every_field_of_the_stand_in_is_one_of_the_real_tool_in_its_form(host: Host, name: str) -> None:
    listed = [line.split(" = ") for line in read_capture(f"{name}/fields.txt").splitlines()]
    heads, values = rows(read_capture(f"{name}/query-all.csv"))[1:3]
    real = {}
    for names, head, value in zip(listed, heads, values, strict=True):
        shown = (head.partition("[")[2].removesuffix("]"), form(value))
        real |= dict.fromkeys(names, shown)
    ours = {
        field: (unit, form(f"{value} {unit}".strip() if not value.startswith("[") else value))
        for field, (value, unit) in host.fields().items()
    }
    assert sorted(ours.keys() - real.keys()) == []
    wrong = {field: (each, real[field]) for field, each in ours.items() if each != real[field]}
    assert wrong.keys() <= OF_STATE, wrong


@BOTH
def test_fields_that_are_unknown_are_refused_as_by_the_real_tool(host: Host, name: str) -> None:
    done = host.run("nvidia_smi", "--query-gpu=index,no_such_field", "--format=csv")
    assert (done.returncode, done.stdout) == (2, read_capture(f"{name}/query-unknown-field.txt"))
    done = host.run("nvidia_smi", "-i", "17", "--query-gpu=index", "--format=csv")
    assert (done.returncode, done.stdout) == (6, read_capture(f"{name}/query-no-gpu.txt"))


@BOTH
def test_tables_of_rows_pages_and_processes_are_printed_as_by_the_real_tool(host: Host, name: str) -> None:
    commands = load_capture(f"{name}/commands.json")
    for file in ("retired-pages.csv", "compute-apps.csv", "remapped-rows.csv"):
        words = [word for word in commands[file]["command"][1:] if word != "-i"]
        done = host.run("nvidia_smi", *words, "-i", "0")
        assert done.returncode == commands[file]["rc"]
        assert list(map(form, done.stdout.splitlines())) == list(
            map(form, read_capture(f"{name}/{file}").splitlines())
        )


@BOTH
def test_a_topology_has_the_header_and_legend_of_the_real_tool(host: Host, name: str) -> None:
    host.hardware["gpus"] = host.hardware["gpus"][:1]
    ours, real = (text.splitlines() for text in (host.run("nvidia_smi", "topo", "-m").stdout,
                                                 read_capture(f"{name}/topo-m.txt")))  # fmt: skip
    assert ours[0] == real[0] and ours[2:] == real[2:]
    assert form(ours[1]).replace("N-N", "N") == form(real[1]).replace("N-N", "N")


def children(element: Element, above: str = "") -> dict[str, list[str]]:
    """The names of the elements below each place, in their order, each once."""
    here = f"{above}/{element.tag}"
    found = {here: list(dict.fromkeys(child.tag for child in element))}
    for child in element:
        found |= children(child, here)
    return found


@BOTH
def test_the_xml_has_elements_of_the_real_one_in_their_order(host: Host, name: str) -> None:
    text = host.run("nvidia_smi", "-q", "-x", "-i", "0").stdout
    real_text = read_capture(f"{name}/q-x.xml")
    assert text.splitlines()[:2] == real_text.splitlines()[:2]
    ours, real = children(fromstring(text)), children(fromstring(real_text))
    assert sorted(ours.keys() - real.keys()) == []
    for place, names in ours.items():
        assert names == [each for each in real[place] if each in names], place
