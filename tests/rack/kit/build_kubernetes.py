"""Writes what a rack with Kubernetes has besides the vendor's packages: `build_kubernetes.py OUT MINOR...`.

OUT gets `layer/` (for every host's root file system), `packages/` (.deb files), `registry/` (container
images) and `charts/`. The programs are real ones: built from their Go modules, or Debian's. Images have the
names that the catalog lists; etcd and CoreDNS are of one release each under the tags of all minors.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2])]

from cluster import host, images, nvidia, packages  # noqa: E402
from vendor.deb import build  # noqa: E402

from gpufleet.catalog import load_catalog  # noqa: E402
from tests.kube import build as kubernetes  # noqa: E402
from tests.kube import charts  # noqa: E402
from tests.kube import cluster_programs as others  # noqa: E402

PAUSE_SOURCE = """\
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int number) { _exit(0); }
static void reap(int number) { while (waitpid(-1, 0, WNOHANG) > 0); }
int main(int count, char **words) {
  // `pause -v` prints its version: with it kubeadm checks that a cluster runs pods.
  if (count > 1) return puts("pause.c") < 0;
  signal(SIGINT, end);
  signal(SIGTERM, end);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
"""


# Programs of this machine that go into images, and the packages that have them.
OF_MACHINE = {
    "/usr/sbin/xtables-nft-multi": "iptables",
    "/usr/sbin/conntrack": "conntrack",
    "/bin/busybox": "busybox-static",
}


CATALOG = load_catalog()


def main(out: Path, minors: list[str]) -> None:
    missing = [package for path, package in OF_MACHINE.items() if not Path(path).exists()]
    if missing:
        sys.exit(f"images of a cluster need programs of {', '.join(missing)}: apt-get install them")
    layer, debs, registry = out / "layer", out / "packages", out / "registry"
    for folder in (layer, debs, registry):
        folder.mkdir()
    host.write(layer)
    with tempfile.TemporaryDirectory() as scratch:
        of_kubernetes = (package for minor in minors for package in _kubernetes(layer, minor))
        for package in (*of_kubernetes, *_packages(layer), *_nvidia(layer, Path(scratch))):
            build(package, debs)
        for image in _images(Path(scratch), minors):
            images.write(image, registry)
    _chart(others.flannel_chart(), out / "charts", "flannel", f"v{others.FLANNEL}")
    _chart(others.device_plugin_chart(), out / "charts", "nvidia-device-plugin", others.DEVICE_PLUGIN)
    _chart(charts.kueue() / "chart", out / "charts", "kueue", others.KUEUE)


def _kubernetes(layer, minor):
    release = kubernetes.version(minor)
    own = {name: kubernetes.program(name, minor) for name in ("kubelet", "kubeadm", "kubectl")}
    return packages.of_kubernetes(release, packages.place(layer, release, own))


def _packages(layer):
    containerd = {name: others.program(name) for name in ("containerd", "containerd-shim-runc-v2", "ctr")}
    plugins = {name: others.program(name) for name in ("bridge", "loopback", "host-local", "portmap")}
    helm = packages.place(layer, "helm", {"helm": others.program("helm")})["helm"]
    yield packages.of_helm(others.HELM, helm)
    crictl = packages.place(layer, "cri-tools", {"crictl": others.program("crictl")})["crictl"]
    yield from packages.of_runtime(
        (others.CONTAINERD, packages.place(layer, "containerd", containerd)),
        (others.CRICTL, crictl),
        (others.CNI, packages.place(layer, "cni", plugins)),
    )


def _nvidia(layer, scratch):
    """The toolkit that can be built, with the driver of the software channel that has it."""
    locks = CATALOG.locks.values()
    lock = next(lock for lock in locks if lock.container_toolkit.partition("-")[0] == others.TOOLKIT)
    yield from nvidia.of_driver(lock.driver, lock.cuda, others.nvml_header(), scratch)
    names = ("nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-runtime")
    places = packages.place(layer, "nvidia-toolkit", {name: others.program(name) for name in names})
    yield nvidia.toolkit(lock.container_toolkit, places)


def _images(scratch, minors):
    named = {
        name: minor
        for minor in minors
        for name in CATALOG.images["kubernetes", kubernetes.version(minor)].images
    }
    for name, minor in named.items():
        yield _image_of_kubernetes(name, minor, scratch)
    yield from _other_images()


def _image_of_kubernetes(name, minor, scratch):
    """An image that kubeadm of a minor names."""
    match name.rpartition("/")[2].partition(":")[0]:
        case "pause":
            pause = scratch / "pause"
            command = ["gcc", "-static", "-Os", "-o", pause, "-x", "c", "-"]
            subprocess.run(command, input=PAUSE_SOURCE, text=True, check=True)
            return images.Image(name, {"pause": pause}, entrypoint=("/pause",))
        case "etcd":
            etcd = ("etcd", "etcdctl", "etcdutl")
            return images.Image(name, {f"usr/local/bin/{part}": others.program(part) for part in etcd})
        case "coredns":
            return images.Image(name, {"coredns": others.program("coredns")}, entrypoint=("/coredns",))
        case "kube-proxy":
            proxy = {"usr/local/bin/kube-proxy": kubernetes.program("kube-proxy", minor)}
            return images.Image(name, proxy, ("/usr/sbin/conntrack", *_iptables()), _iptables_links())
        case server:
            return images.Image(name, {f"usr/local/bin/{server}": kubernetes.program(server, minor)})


def _other_images():
    flannel, plugin = sorted(
        CATALOG.images["flannel", others.FLANNEL].images, key=lambda name: "cni-plugin" in name
    )
    yield images.Image(
        flannel,
        {"opt/bin/flanneld": others.program("flanneld")},
        ("/bin/cp", *_iptables()),
        _iptables_links(),
    )
    yield images.Image(plugin, {"flannel": others.program("flannel")}, ("/bin/cp",))
    yield images.Image(
        f"nvcr.io/nvidia/k8s-device-plugin:v{others.DEVICE_PLUGIN}",
        {"usr/bin/nvidia-device-plugin": others.program("nvidia-device-plugin")},
        entrypoint=("nvidia-device-plugin",),
        # Those of NVIDIA's image, whose runtime gives it all GPUs.
        environment={
            "NVIDIA_DISABLE_REQUIRE": "true",
            "NVIDIA_VISIBLE_DEVICES": "all",
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        },
    )
    yield images.Image(
        f"registry.k8s.io/kueue/kueue:v{others.KUEUE}",
        {"manager": others.program("kueue")},
        entrypoint=("/manager",),
        user="65532:65532",
    )
    yield images.Image(
        "docker.io/library/busybox:1",
        {"bin/busybox": Path("/bin/busybox")},
        links={f"bin/{name}": "busybox" for name in ("sh", "cat", "ls", "sleep", "wget", "nslookup", "echo")},
    )


def _iptables():
    """iptables and its extensions, which are libraries that it loads by name, and which load others."""
    folder = next(Path("/usr/lib").glob("*/xtables"))
    return ("/usr/sbin/xtables-nft-multi", *sorted(map(str, folder.glob("*.so"))))


def _iptables_links():
    names = [f"{name}{part}" for name in ("iptables", "ip6tables") for part in ("", "-save", "-restore")]
    return {f"usr/sbin/{name}": "xtables-nft-multi" for name in names}


def _chart(source: Path, folder: Path, name: str, version: str) -> None:
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / f"{name}-{version}.tgz", "w:gz") as tar:
        tar.add(source, arcname=name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
