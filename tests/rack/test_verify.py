"""`gpufleet verify` on a working cluster: no findings without faults, and every fault at its host."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rack.site import Site

SETTLED = "for try in $(seq 400); do chronyc -c tracking | grep -q Normal && break; sleep 0.5; done"


def found(result: dict[str, Any], host: str) -> dict[tuple[str, str], str]:
    """(role, check) -> message, for a host."""
    return {
        (item["role"], item["check"]): item["message"]
        for item in result["findings"]
        if item["host"] == host and item["status"] == "fail"
    }


def test_verify_finds_nothing_after_configure(site: Site) -> None:
    result = site.configure(verb="verify")
    assert [item for item in result["findings"] if item["status"] == "fail"] == []
    assert result["lost_hosts"] == []
    hosts = {host.name for host in site.lab.rack.site.hosts}
    assert set(result["hosts"]) == hosts
    assert all(result["hosts"][name]["pass"] > 10 for name in site.lab.names("gpu"))


def test_hardware_clock_and_disk_faults_are_found_only_on_their_hosts(
    site_to_break: Site,
) -> None:
    site = site_to_break
    lab = site.lab
    # A rack in a box has no time server: here is one, from which dgx04 is 30 s away.
    lab.sh(
        "ctl01",
        "printf 'local stratum 8\\nallow all\\n' >/etc/chrony/conf.d/x.conf; systemctl restart chrony",
    )
    lab.sh("dgx04", "DEBIAN_FRONTEND=noninteractive apt-get -qq install -y libfaketime >/dev/null")
    lab.hardware("dgx01").remove_gpu(3)
    lab.hardware("dgx02").xid(79, gpu=5)
    lab.hardware("dgx03").port(2, speed="HDR")
    lab.hardware("dgx03").ecc(0, kind="sram_uncorrected")
    lab.hardware("dgx04").clock_offset(30)
    lab.sh("dgx04", "mount -t tmpfs -o size=4m tmpfs /tmp; dd if=/dev/zero of=/tmp/full 2>/dev/null || true")
    # chrony would take the first step for the clock's, which it may not set here, and call it right.
    lab.sh("dgx04", f"sed -i /makestep/d /etc/chrony/chrony.conf; systemctl restart chrony; {SETTLED}")
    lab.sh("login01", "systemctl stop munge; chmod 0644 /etc/munge/munge.key")

    result = site.configure(verb="verify", code=1)

    one, two, three, four = (found(result, f"dgx{node:02d}") for node in range(1, 5))
    assert one["nvidia_driver", "gpus"] == "7 GPUs answer instead of 8"
    assert one["health_check", "gpu_count"] == "7 of 8 GPUs on the PCI bus"
    assert "GPU 5 Xid 79 (GPU has fallen off the bus): REBOOT" in two["health_check", "xid"]
    assert three["rdma", "ports"].endswith("mlx5_4 at 200 Gb/s instead of 400")
    assert three["health_check", "port"] == "mlx5_4 at 200 Gb/s instead of 400"
    assert three["health_check", "ecc"] == "GPU 0 1 uncorrectable ECC errors"
    assert ("nvidia_driver", "gpus") not in three
    assert four["base", "clock"] == "the clock is 30.0 s off"
    assert four["health_check", "disk"] == "/tmp 0.0% space free, 3% are needed"
    login = found(result, "login01")
    assert login["munge", "service"] == "munge is inactive"
    assert login["munge", "key"] == "munge 644 instead of munge 400"
    assert ("munge", "round trip") in login
    # Slurm may have run the nodes' own checks by now.
    assert set(found(result, "ctl02")) <= {("slurm_controller", "nodes")}


@pytest.mark.breaks("dgx01", "dgx02", "dgx04")
def test_manual_changes_are_found_while_a_host_is_unreachable(
    site_to_break: Site,
) -> None:
    site = site_to_break
    lab = site.lab
    lab.sh("dgx01", "systemctl stop slurmd nvidia-fabricmanager; nft flush ruleset")
    lab.sh("dgx02", "sysctl -qw vm.swappiness=61; umount -l /shared/home")
    lab.rack.stop("dgx04", force=True)
    result = site.configure("--limit", "dgx01,dgx02,dgx04", verb="verify", code=4)
    assert result["lost_hosts"] == ["dgx04"]
    one, two, four = (found(result, host) for host in ("dgx01", "dgx02", "dgx04"))
    assert list(four) == [("host", "reached")]
    assert one["slurm_node", "service"] == "slurmd is inactive"
    assert one["fabric_manager", "service"] == "nvidia-fabricmanager is inactive"
    assert ("firewall", "rules") in one
    assert two["base", "sysctl"] == "vm.swappiness is 61 instead of 10"
    assert two["nfs_client", "/shared/home"] == "/shared/home is not mounted"
    assert result["hosts"]["dgx02"]["pass"] > 10
