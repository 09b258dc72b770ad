"""Programs of a Kubernetes cluster besides Kubernetes' own, built from their Go modules into the cache.

`programs/` has a module for each source; see its README.md. Helm's is in `chart_sources/`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.kube.build import CACHE, go_program
from tests.programs import run_go

HERE = Path(__file__).parent
_FLANNEL = "github.com/flannel-io/flannel"
_LEFT_OUT = ("/backend/tencentvpc", "/backend/udp")
_CONTAINERD = "github.com/containerd/containerd/v2"
_PLUGINS = "github.com/containernetworking/plugins/plugins"


@dataclass(frozen=True)
class Source:
    """The package of a program, the folder of its module, and options of `go build`."""

    folder: str
    package: str
    flags: str = ""
    options: tuple[str, ...] = ()


def version(folder: str, module: str) -> str:
    """The release of a module that `programs/<folder>/go.mod` pins, without the v."""
    text = (HERE / folder / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} v(\S+)", text, re.MULTILINE)
    assert found, f"{folder}/go.mod does not require {module}"
    return found[1]


CONTAINERD = version("programs/containerd", _CONTAINERD)
ETCD = version("programs/etcd", "go.etcd.io/etcd/server/v3")
FLANNEL = version("programs/flannel", _FLANNEL)
CRICTL = version("programs/crictl", "sigs.k8s.io/cri-tools")
HELM = version("chart_sources", "helm.sh/helm/v4")
CNI = version("programs/cni", "github.com/containernetworking/plugins")

_STAMP = f"-X {_CONTAINERD}/version.Version={CONTAINERD}"
# Storage that no host of a rack in a box has, and whose libraries need a C compiler.
_TAGS = ("-tags", "no_btrfs,no_devmapper,no_zfs")
SOURCES: dict[str, Source] = {
    **{
        name: Source("programs/containerd", f"{_CONTAINERD}/cmd/{name}", _STAMP, _TAGS)
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    },
    "crictl": Source(
        "programs/crictl",
        "sigs.k8s.io/cri-tools/cmd/crictl",
        f"-X sigs.k8s.io/cri-tools/pkg/version.Version=v{CRICTL}",
    ),
    "etcd": Source("programs/etcd", "go.etcd.io/etcd/server/v3"),
    "etcdctl": Source("programs/etcd", "go.etcd.io/etcd/etcdctl/v3"),
    "etcdutl": Source("programs/etcd", "go.etcd.io/etcd/etcdutl/v3"),
    "coredns": Source("programs/coredns", "github.com/coredns/coredns"),
    "flanneld": Source("programs/flannel", ".", f"-X {_FLANNEL}/pkg/version.Version=v{FLANNEL}"),
    **{
        plugin.rpartition("/")[2]: Source("programs/cni", f"{_PLUGINS}/{plugin}")
        for plugin in ("main/bridge", "main/loopback", "ipam/host-local", "meta/portmap")
    },
    "helm": Source("chart_sources", "helm.sh/helm/v4/cmd/helm"),
    "flannel": Source("programs/flannel_plugin", f"{_PLUGINS}/meta/flannel"),
}


def program(name: str) -> Path:
    """The program of that name, built first if need be."""
    source = SOURCES[name]
    path = CACHE / f"{Path(source.folder).name}-{os.uname().machine}" / name
    module = HERE / source.folder if name != "flanneld" else _flanneld_source()
    return go_program(path, module, source.package, source.flags, *source.options)


def flannel_chart() -> Path:
    """The folder of flannel's Helm chart."""
    return _module("programs/flannel", _FLANNEL) / "chart" / "kube-flannel"


def _flanneld_source() -> Path:
    """A module with flanneld's main package but for two backends: of Tencent's cloud, and UDP.

    Not every registry has the SDK that the one needs, and the other needs a C compiler.
    """
    main = _module("programs/flannel", _FLANNEL) / "main.go"
    folder = CACHE / "flannel-source"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(HERE / "programs" / "flannel" / name, folder / name)
    lines = main.read_text().splitlines(keepends=True)
    kept = (line for line in lines if not any(name in line for name in _LEFT_OUT))
    (folder / "main.go").write_text("".join(kept))
    return folder


def _module(folder: str, module: str) -> Path:
    """The folder of a module's source in Go's cache."""
    done = run_go("mod", "download", "-json", module, folder=HERE / folder, timeout_s=600)
    assert done.returncode == 0, f"{module} could not be had:\n{done.stdout}{done.stderr}"
    return Path(json.loads(done.stdout)["Dir"])
