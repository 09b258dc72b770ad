"""NVLinks: as many active as the kind of GPU has, and errors each counted once, on every generation."""

from __future__ import annotations

import pytest
from health.config import Config
from health.nvlink import check_links, count, counters, fault, status, wanted

from gpufleet.catalog import load_catalog
from gpufleet.catalog.nvlinks import active_nvlinks, nvlink_counts
from tests.captures import read_capture, section

from .conftest import Node

KNOWN = active_nvlinks()
DEAD = "NVML: Unable to retrieve {} information as all links are inActive"
# The counters of driver 595.91.07 on a healthy p6-b300.48xlarge.
FIFTH = """\
\t Link {link}: Malformed packet Errors: 0
\t Link {link}: Buffer overrun Errors: 0
\t Link {link}: Rx Errors: {rx}
\t Link {link}: Rx remote Errors: {remote}
\t Link {link}: Rx General Errors: 0
\t Link {link}: Local link integrity Errors: 0
\t Link {link}: Tx discards: 0
\t Link {link}: Link recovery successful events: {good}
\t Link {link}: Link recovery failed events: {failed}
\t Link {link}: Total link recovery events: {all}
\t Link {link}: Effective Errors: 0
\t Link {link}: Effective BER: 15e-255
\t Link {link}: Symbol Errors: 0
\t Link {link}: Symbol BER: 15e-255
\t Link {link}: FEC Errors - 0: 36140749276
\t Link {link}: FEC Errors - 1: 12
\t Link {link}: Raw BER Lane 0: 2061
\t Link {link}: Raw BER Total: 1037
\t Link {link}: Raw Errors Lane 0: 82
"""


def fifth(rx: int = 0, remote: int = 0, good: int = 0, failed: int = 0) -> str:
    values = {"rx": rx, "remote": remote, "good": good, "failed": failed, "all": good + failed}
    return "".join(
        f"GPU {gpu}: NVIDIA B300 SXM6 AC (UUID: GPU-{gpu})\n"
        + "".join(
            FIFTH.format(link=link, **(values if (gpu, link) == (3, 7) else QUIET)) for link in range(18)
        )
        for gpu in range(8)
    )


QUIET = {"rx": 0, "remote": 0, "good": 0, "failed": 0, "all": 0}


def printed(product: str, active: dict[int, int], lines: int = 18, dead: str = "NVLink") -> str:
    """What `nvidia-smi nvlink -s` prints of GPUs with so many active links of `lines`."""
    text = ""
    for gpu, count_ in active.items():
        text += f"GPU {gpu}: NVIDIA {product} (UUID: GPU-{gpu})\n"
        if not count_:
            text += DEAD.format(dead) + "\n"
            continue
        for link in range(lines):
            text += f"\t Link {link}: {'26.562 GB/s' if link < count_ else '<inactive>'}\n"
    return text


def faults(text: str, nvswitches: int = 4, nvlinks: dict[str, int] | None = None) -> dict[int, str]:
    """The faults of the GPUs that `nvidia-smi nvlink -s` printed."""
    config = Config(node="x", gpus=8, nvswitches=nvswitches, nvlinks=KNOWN if nvlinks is None else nvlinks)
    found = status(text)
    wants = wanted(config, {gpu: links for gpu, links in found.items() if not links.divided})
    return {gpu: reported for gpu, want in wants.items() if (reported := fault(found[gpu], want))}


@pytest.mark.parametrize("word", ["NVLink", "Nvlink"])
@pytest.mark.parametrize("nvlinks", [KNOWN, {}])
def test_a_gpu_whose_links_are_all_dead_is_a_fault(node: Node, word: str, nvlinks: dict[str, int]) -> None:
    node.config["nvlinks"] = nvlinks
    text = printed("H100 80GB HBM3", {gpu: 0 if gpu == 6 else 18 for gpu in range(8)}, dead=word)
    node.printed["nvlink--status"] = text
    node.run()
    assert node.found == {"nvlink": ("drain", "GPU 6 all NVLinks are inactive")}


def test_a_node_whose_links_are_all_dead_is_a_fault_of_every_gpu() -> None:
    text = printed("H100 80GB HBM3", dict.fromkeys(range(8), 0))
    for nvlinks in (KNOWN, {}):
        assert faults(text, nvlinks=nvlinks) == dict.fromkeys(range(8), "all NVLinks are inactive")


def test_a_gpu_that_is_not_reported_is_a_fault_and_the_others_are_not_blamed(node: Node) -> None:
    node.printed["nvlink--status"] = printed("H100 80GB HBM3", dict.fromkeys(range(7), 18))
    node.run()
    assert node.found == {"nvlink": ("drain", "GPU 7 its NVLinks are not reported")}


def test_one_gpu_that_cannot_be_read_is_blamed_and_the_exit_code_blames_no_other(node: Node) -> None:
    node.printed["nvlink--status"] = printed("H100 80GB HBM3", dict.fromkeys(range(7), 18)) + (
        "GPU 7: NVIDIA H100 80GB HBM3 (UUID: GPU-7)\nUnable to get NVLink state: Unknown Error\n"
    )
    node.answer("nvlink.code", "15")
    node.run()
    reported = "GPU 7 its NVLinks are not readable: Unable to get NVLink state: Unknown Error"
    assert node.found == {"nvlink": ("drain", reported)}


def test_fabric_manager_that_cannot_be_asked_for_is_no_state_of_it(node: Node) -> None:
    (node.bin / "systemctl").write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2; exit 1\n")
    node.run()
    reported = "Fabric Manager was not checked: Failed to connect to bus"
    assert node.found == {"fabric_manager": ("drain", reported)}


def test_links_that_nothing_was_printed_of_were_not_measured(node: Node) -> None:
    node.printed["nvlink--status"] = ""
    node.answer("nvlink.code", "15")
    node.run()
    assert node.found == {"nvlink": ("drain", "links were not measured: exit code 15")}


def test_a_gpu_with_fewer_links_than_its_kind_is_a_fault_though_none_is_printed_as_inactive() -> None:
    text = printed("H100 80GB HBM3", dict.fromkeys(range(7), 18)) + printed("H100 80GB HBM3", {7: 14}, 14)
    assert faults(text) == {7: "14 of 18 NVLinks are active"}
    assert faults(text, nvlinks={}) == {7: "14 of 18 NVLinks are active"}
    short = printed("H100 80GB HBM3", dict.fromkeys(range(8), 14), 14)
    assert faults(short) == dict.fromkeys(range(8), "14 of 18 NVLinks are active")


def test_12_of_18_links_of_an_h100_on_a_card_are_active_by_design() -> None:
    assert faults(printed("H100 PCIe", dict.fromkeys(range(2), 12)), nvswitches=0) == {}
    assert faults(printed("H100 PCIe", {0: 12, 1: 11}), nvswitches=0) == {
        1: "NVLink 11, 12, 13, 14, 15, 16 and 1 more are inactive"
    }


def test_cards_without_a_bridge_and_a_gpu_alone_need_no_links() -> None:
    assert faults(printed("A100-PCIE-40GB", {0: 0, 1: 0}), nvswitches=0) == {}
    assert faults(printed("H100 PCIe", {0: 0, 1: 0}), nvswitches=0) == {}
    assert faults(printed("GH200 480GB", {0: 0}), nvswitches=-1) == {}


def test_the_real_healthy_tools_show_no_fault() -> None:
    assert faults(read_capture("nvidia-smi/nvlink-s_a100_8gpu.txt")) == {}
    h100 = section(read_capture("nvidia-smi/multi_h100-80gb-hbm3_590.48.01.txt"), "nvidia-smi nvlink -s")
    assert [len(links.active) for links in status(h100).values()] == [18]
    assert faults(h100) == {}


def test_links_of_a_real_gpu_in_mig_mode_are_not_judged() -> None:
    text = section(read_capture("nvidia-smi/multi_h100-mig_590.48.01.txt"), "nvidia-smi nvlink -s")
    assert [links.divided for links in status(text).values()] == [True]
    assert faults(text) == {}


def test_real_faults_are_found_and_healthy_neighbours_are_not_blamed() -> None:
    dead = read_capture("nvidia-smi/nvlink-s_a100_all-inactive.txt")
    assert faults(dead) == {6: "all NVLinks are inactive"}
    single = read_capture("nvidia-smi/nvlink-s_v100_single-links-inactive.txt")
    expected = {
        3: "NVLink 3, 5 are inactive",
        4: "NVLink 1 is inactive",
        5: "NVLink 0, 4 are inactive",
        6: "NVLink 1 is inactive",
    }
    found = faults(single, nvswitches=0)
    assert {gpu: found[gpu] for gpu in expected} == expected
    assert set(found) <= {3, 4, 5, 6, 7}


def test_errors_of_the_fifth_generation_are_counted_and_bit_error_rates_are_not(node: Node) -> None:
    healthy = counters(fifth())
    assert [sum(map(count, links.values())) for links in healthy.values()] == [0] * 8
    node.config["nvlink_errors_per_hour"] = 10
    node.printed["nvlink--errorcounters"] = fifth()
    node.run()
    assert node.found == {}
    node.printed["nvlink--errorcounters"] = fifth(rx=7, remote=7, good=4)
    node.run()
    assert node.found["nvlink_errors"][1].startswith("GPU 3 ")


def test_a_total_and_its_parts_are_one_count() -> None:
    read = counters(fifth(rx=7, remote=7, good=3, failed=2))[3]
    assert count(read[7]) == 7 + 5
    # A driver that counts parts only, and one of the fourth generation.
    assert count({"rx remote errors": 2, "link recovery failed events": 1}) == 3
    assert count({"replay errors": 1, "recovery errors": 2, "crc errors": 4}) == 7


def test_a_recovery_that_failed_is_reported_without_a_limit(node: Node) -> None:
    node.printed["nvlink--errorcounters"] = fifth(failed=1)
    node.run()
    assert node.found == {}, "what was there before the first run has no time"
    node.printed["nvlink--errorcounters"] = fifth(failed=3)
    node.run()
    assert node.found == {"nvlink_errors": ("advise", "GPU 3 2 NVLink recoveries failed")}


def test_counters_with_other_names_are_reported_and_never_taken_for_none(node: Node) -> None:
    node.printed["nvlink--errorcounters"] = "GPU 0: NVIDIA X (UUID: GPU-0)\n\t Link 0: Lane trouble: 3\n"
    node.run()
    reported = "this driver's NVLink error counters have other names than those known"
    assert node.found == {"nvlink_errors": ("advise", reported)}


def test_every_product_of_the_catalog_has_a_source_and_every_system_a_product() -> None:
    assert all(item.source and item.active > 0 for item in nvlink_counts())
    products = [item.product for item in nvlink_counts()]
    assert len(products) == len(set(products))
    for system in load_catalog().systems.values():
        assert any(product.split()[0].split("-")[0] == system.gpu for product in products), system.name


def test_without_gpus_there_is_nothing_to_judge() -> None:
    assert check_links(Config(node="x", gpus=0), None, []) == []  # type: ignore[arg-type]
