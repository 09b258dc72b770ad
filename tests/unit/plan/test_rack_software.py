"""Where the software of a rack site comes from, and what is known of its version."""

from __future__ import annotations

from typing import Any

from gpufleet.catalog import load_catalog
from gpufleet.plan.rack import plan_rack
from gpufleet.plan.rack_models import RackSoftwarePlan
from gpufleet.plan.rack_software import plan_software

from .test_rack import site

CATALOG = load_catalog()
LOCK = CATALOG.lock("2026.11")
MIRROR = "http://mirror.example"
CHARTS = ("GPU Operator", "Network Operator", "Kueue")


def software(mounts: tuple[str, ...] = (), **changes: Any) -> dict[str, RackSoftwarePlan]:
    declared = site(**changes)
    found = plan_software(plan_rack(declared), mounts, CATALOG.system(declared.system), LOCK)
    return {item.name: item for item in found}


def test_vendors_software_has_the_lock_s_version_from_their_repositories_or_the_mirror() -> None:
    for mirror, source in ((None, "nvidia"), (MIRROR, "mirror")):
        found = software(package_mirror=mirror)
        for name, version in (("NVIDIA driver", LOCK.driver), ("DCGM", LOCK.dcgm)):
            assert (found[name].version, found[name].source) == (version, source)
        assert found["Fabric Manager"].version == found["NVIDIA driver"].version


def test_slurm_of_the_distribution_is_shown_with_the_versions_of_the_systems() -> None:
    found = software(package_mirror=MIRROR)["Slurm"]
    assert (found.version, found.source) == (None, "distribution")
    assert found.note.startswith(
        "22.05.8 on Debian 12, 23.11.4 on Ubuntu 24.04 and DGX OS 7, not the software channel's 25.05.8"
    )


def test_pyxis_and_enroot_without_a_mirror_are_not_installed_with_the_remedy() -> None:
    found = software()["Pyxis and Enroot"]
    assert (found.version, found.source) == (None, "none")
    assert "set `package_mirror`" in found.note
    assert software(package_mirror=MIRROR)["Pyxis and Enroot"].source == "mirror"


def test_gdrcopy_comes_from_the_mirror_only() -> None:
    assert (software()["GDRCopy"].version, software()["GDRCopy"].source) == (None, "none")
    found = software(package_mirror=MIRROR)["GDRCopy"]
    assert (found.version, found.source) == (LOCK.gdrcopy, "mirror")


def test_repository_of_doca_in_the_fleet_file_is_shown_unless_there_is_a_mirror() -> None:
    doca = {"repository": "https://mirror.example/doca"}
    found = software(doca=doca)["DOCA-OFED"]
    assert (found.source, found.note) == ("site", "https://mirror.example/doca")
    plain = software()["DOCA-OFED"]
    assert (plain.source, plain.note) == ("nvidia", "")


def test_kubernetes_site_has_no_slurm_and_the_release_of_its_minor() -> None:
    found = software(
        scheduler="kubernetes",
        kubernetes={"version": "1.35", "endpoint": "10.0.0.1"},
        controllers="ctl[01-03]",
    )
    assert (found["Kubernetes"].version, found["Kubernetes"].source) == ("1.35.4", "vendor")
    assert not {"Slurm", "Pyxis and Enroot"} & set(found)
    assert found["GPU Operator"].version == LOCK.gpu_operator


def test_charts_of_a_kubernetes_site_are_those_that_it_asks_for() -> None:
    def charts(**settings: Any) -> dict[str, str | None]:
        declared = {"version": "1.35", "endpoint": "10.0.0.1", **settings}
        found = software(scheduler="kubernetes", kubernetes=declared, controllers="ctl[01-03]")
        return {name: found[name].version for name in CHARTS if name in found}

    assert charts(operators={"gpu_operator": False, "network_operator": False}, kueue=False) == {}
    assert charts() == {
        "GPU Operator": LOCK.gpu_operator,
        "Network Operator": LOCK.network_operator,
        "Kueue": LOCK.kueue,
    }


def test_only_declared_parts_of_a_site_are_listed() -> None:
    assert not {"Lustre client", "Grafana"} & set(software())
    found = software(("lustre",), monitoring={"grafana": False})
    assert found["Lustre client"].source == "host"
    assert software(("lustre",), package_mirror=MIRROR)["Lustre client"].source == "mirror"
    assert "Prometheus, Alertmanager, node exporter" in found
    assert "Grafana" not in found
    assert software(monitoring={})["Grafana"].source == "vendor"


def test_system_without_nvswitches_has_no_fabric_manager() -> None:
    def names(nvswitches: int | None) -> set[str]:
        system = CATALOG.system("hgx-h100").model_copy(update={"nvswitches": nvswitches})
        return {each.name for each in plan_software(plan_rack(site()), (), system, LOCK)}

    assert "Fabric Manager" not in names(0)
    assert "Fabric Manager" in names(4) & names(None), "unknown is not none"
