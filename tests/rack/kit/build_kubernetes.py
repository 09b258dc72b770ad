"""Writes what a rack with Kubernetes has besides the vendor's packages: `build_kubernetes.py OUT`.

OUT gets `layer/` (for every host's root file system), `packages/` (.deb files), `registry/` (container
images) and `charts/`. The programs are real ones: built from their Go modules, or Debian's.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2])]

from cluster import host, images, packages  # noqa: E402
from vendor.deb import build  # noqa: E402

from tests.kube import build as kubernetes  # noqa: E402
from tests.kube import cluster_programs as others  # noqa: E402

SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
# Constants of kubeadm 1.35 (cmd/kubeadm/app/constants), which names these images.
PAUSE, COREDNS, ETCD = "3.10.1", "v1.13.1", "3.6.6-0"
# The default of flannel's chart.
FLANNEL_PLUGIN = "v1.9.1-flannel1"
PAUSE_SOURCE = """\
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int number) { _exit(0); }
static void reap(int number) { while (waitpid(-1, 0, WNOHANG) > 0); }
int main(void) {
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


def main(out: Path) -> None:
    missing = [package for path, package in OF_MACHINE.items() if not Path(path).exists()]
    if missing:
        sys.exit(f"images of a cluster need programs of {', '.join(missing)}: apt-get install them")
    layer, debs, registry = out / "layer", out / "packages", out / "registry"
    for folder in (layer, debs, registry):
        folder.mkdir()
    host.write(layer)
    for package in _packages(layer):
        build(package, debs)
    with tempfile.TemporaryDirectory() as scratch:
        for image in _images(Path(scratch)):
            images.write(image, registry)
    _chart(others.flannel_chart(), out / "charts", f"flannel-v{others.FLANNEL}")


def _packages(layer):
    minor = kubernetes.MINOR
    release = kubernetes.version(minor)
    own = {name: kubernetes.program(name, minor) for name in ("kubelet", "kubeadm", "kubectl")}
    yield from packages.of_kubernetes(release, packages.place(layer, release, own))
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


def _images(scratch):
    release = f"v{kubernetes.version(kubernetes.MINOR)}"
    of_kubernetes, iptables = "registry.k8s.io", _iptables()
    for name in SERVERS:
        program = kubernetes.program(name, kubernetes.MINOR)
        yield images.Image(f"{of_kubernetes}/{name}:{release}", {f"usr/local/bin/{name}": program})
    proxy = kubernetes.program("kube-proxy", kubernetes.MINOR)
    yield images.Image(
        f"{of_kubernetes}/kube-proxy:{release}",
        {"usr/local/bin/kube-proxy": proxy, **iptables},
        ("/usr/sbin/xtables-nft-multi", "/usr/sbin/conntrack"),
        _iptables_links(),
    )
    pause = scratch / "pause"
    command = ["gcc", "-static", "-Os", "-o", pause, "-x", "c", "-"]
    subprocess.run(command, input=PAUSE_SOURCE, text=True, check=True)
    yield images.Image(f"{of_kubernetes}/pause:{PAUSE}", {"pause": pause}, entrypoint=("/pause",))
    etcd = {f"usr/local/bin/{name}": others.program(name) for name in ("etcd", "etcdctl", "etcdutl")}
    yield images.Image(f"{of_kubernetes}/etcd:{ETCD}", etcd)
    yield images.Image(
        f"{of_kubernetes}/coredns/coredns:{COREDNS}",
        {"coredns": others.program("coredns")},
        entrypoint=("/coredns",),
    )
    yield images.Image(
        f"ghcr.io/flannel-io/flannel:v{others.FLANNEL}",
        {"opt/bin/flanneld": others.program("flanneld"), **iptables},
        ("/usr/sbin/xtables-nft-multi", "/bin/cp"),
        _iptables_links(),
    )
    plugin = {"flannel": others.program("flannel")}
    yield images.Image(f"ghcr.io/flannel-io/flannel-cni-plugin:{FLANNEL_PLUGIN}", plugin, ("/bin/cp",))
    yield images.Image(
        "docker.io/library/busybox:1",
        {"bin/busybox": Path("/bin/busybox")},
        links={f"bin/{name}": "busybox" for name in ("sh", "cat", "ls", "sleep", "wget", "nslookup", "echo")},
    )


def _iptables():
    """The extensions of iptables, each a library that it loads by name."""
    folder = next(Path("/usr/lib").glob("*/xtables"))
    return {str(path)[1:]: path for path in folder.glob("*.so")}


def _iptables_links():
    names = [f"{name}{part}" for name in ("iptables", "ip6tables") for part in ("", "-save", "-restore")]
    return {f"usr/sbin/{name}": "xtables-nft-multi" for name in names}


def _chart(source: Path, folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / f"{name}.tgz", "w:gz") as tar:
        tar.add(source, arcname=name.partition("-")[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
