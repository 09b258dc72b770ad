"""containerd's configuration on nodes and controllers, read by the containerd of the software channel."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kube.build import MINOR
from tests.kube.cluster_programs import program
from tests.unit.ansible.rendering import Site
from tests.unit.ansible.test_kubernetes_files import fleet

ROLE = Path("ansible/roles/kubernetes_base")
CONFIG = "/etc/containerd/config.toml"
DROP_IN = "/etc/containerd/conf.d/99-nvidia.toml"
CRI = "io.containerd.cri.v1.runtime"
# The configuration of Docker's package of containerd.
PACKAGED = 'disabled_plugins = ["cri"]\n'

pytestmark = pytest.mark.xdist_group("kube")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(fleet(MINOR), tmp_path_factory.mktemp("site"))


def read(site: Site, host: str, folder: Path) -> dict[str, Any]:
    """What containerd makes of a host's configuration in `folder`, and of `folder/conf.d`."""
    text = site.rendered(host, "kubernetes_base", "ubuntu_24_04", {})[CONFIG].text
    path = folder / "config.toml"
    path.write_text(text.replace("/etc/containerd/", f"{folder}/"))
    command = [program("containerd"), "--config", path, "config", "dump"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    # It warns of unknown settings, which nvidia-ctk writes.
    assert not done.stderr or (folder / "conf.d/99-nvidia.toml").exists()
    return tomllib.loads(done.stdout)


def test_gpu_nodes_have_nvidias_runtime_beside_runc_and_controllers_do_not(
    site: Site, tmp_path: Path
) -> None:
    cri = read(site, "dgx01", tmp_path)["plugins"][CRI]
    runtimes = cri["containerd"]["runtimes"]
    assert set(runtimes) == {"nvidia", "runc"}
    assert runtimes["nvidia"]["runtime_type"] == runtimes["runc"]["runtime_type"] == "io.containerd.runc.v2"
    options = runtimes["nvidia"]["options"]
    assert options["BinaryName"] == "/usr/bin/nvidia-container-runtime"
    assert options["SystemdCgroup"] is runtimes["runc"]["options"]["SystemdCgroup"] is True
    # Pods without a runtime class get their GPUs by CDI.
    assert cri["containerd"]["default_runtime_name"] == "runc"
    assert cri["enable_cdi"] is True
    assert cri["cdi_spec_dirs"] == ["/etc/cdi", "/var/run/cdi"]
    assert set(read(site, "ctl01", tmp_path)["plugins"][CRI]["containerd"]["runtimes"]) == {"runc"}


def test_settings_of_a_site_are_merged_in_the_version_of_the_file(site: Site, tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    setting = '[plugins."io.containerd.grpc.v1.cri"]\nrestrict_oom_score_adj = true\n'
    (tmp_path / "conf.d/50-site.toml").write_text(f"version = 2\n{setting}")
    cri = read(site, "dgx01", tmp_path)["plugins"][CRI]
    assert cri["restrict_oom_score_adj"] is True
    assert set(cri["containerd"]["runtimes"]) == {"nvidia", "runc"}


def test_file_that_nvidia_ctk_wrote_before_is_removed_since_it_turns_the_cri_off(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(PACKAGED)
    written = tmp_path / "conf.d/99-nvidia.toml"
    words = ["--runtime=containerd", "--cdi.enabled", f"--config={tmp_path}/config.toml"]
    command = [program("nvidia-ctk"), "runtime", "configure", *words, f"--drop-in-config={written}"]
    # Without a containerd on PATH whose configuration would be read.
    subprocess.run(command, env={"PATH": ""}, capture_output=True, check=True, timeout=300)
    assert "io.containerd.grpc.v1.cri" in read(site, "dgx01", tmp_path)["disabled_plugins"]
    written.unlink()
    assert read(site, "dgx01", tmp_path)["disabled_plugins"] == []
    tasks = yaml.safe_load((ROLE / "tasks/configure.yml").read_text())
    items = [item for task in tasks for item in task.get("gpufleet.rack.files", {}).get("files", [])]
    assert {"path": DROP_IN, "absent": True} in items
