"""Programs of a Kubernetes cluster besides Kubernetes' own, from their Go modules (tests/go_programs.py).

`programs/` has a module for each source; see its README.md.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from pathlib import Path

from gpufleet.files import put
from tests.go_programs import CACHE, GoProgram
from tests.programs import run_go

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
_FLANNEL = "github.com/flannel-io/flannel"
_LEFT_OUT = ("/backend/tencentvpc", "/backend/udp")
_CONTAINERD = "github.com/containerd/containerd/v2"
_PLUGINS = "github.com/containernetworking/plugins/plugins"
KUEUE_MODULE = "sigs.k8s.io/kueue"
KARPENTER_MODULE = "github.com/aws/karpenter-provider-aws"
_KUBE_BENCH = "github.com/aquasecurity/kube-bench"
_TOOLKIT = "github.com/NVIDIA/nvidia-container-toolkit"
_DEVICE_PLUGIN = "github.com/NVIDIA/k8s-device-plugin"


def version(folder: str, module: str) -> str:
    """The release of a module that a program's go.mod pins, without the v."""
    text = (PROGRAMS / folder / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} v(\S+)", text, re.MULTILINE)
    assert found, f"{folder}/go.mod does not require {module}"
    return found[1]


CONTAINERD = version("containerd", _CONTAINERD)
ETCD = version("etcd", "go.etcd.io/etcd/server/v3")
FLANNEL = version("flannel", _FLANNEL)
CRICTL = version("crictl", "sigs.k8s.io/cri-tools")
HELM = version("helm", "helm.sh/helm/v4")
KUEUE = version("kueue", KUEUE_MODULE)
KARPENTER = version("karpenter", KARPENTER_MODULE)
KUBE_BENCH = version("kube_bench", _KUBE_BENCH)
TOOLKIT = version("nvidia_toolkit", _TOOLKIT)
DEVICE_PLUGIN = version("device_plugin", _DEVICE_PLUGIN)
CNI = version("cni", "github.com/containernetworking/plugins")

_STAMP = f"-X {_CONTAINERD}/version.Version={CONTAINERD}"
# Storage that no host of a rack in a box has, and whose libraries need a C compiler.
_TAGS = ("-tags", "no_btrfs,no_devmapper,no_zfs")
# Functions of NVML are looked up where the library is loaded, not where the program is linked (as in the
# makefiles of both modules).
_UNRESOLVED = "'-extldflags=-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files -Wl,-z,lazy'"
_PROGRAMS = {
    **{
        name: ("containerd", f"{_CONTAINERD}/cmd/{name}", _STAMP, _TAGS)
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    },
    "crictl": (
        "crictl",
        "sigs.k8s.io/cri-tools/cmd/crictl",
        f"-X sigs.k8s.io/cri-tools/pkg/version.Version=v{CRICTL}",
    ),
    "etcd": ("etcd", "go.etcd.io/etcd/server/v3"),
    "etcdctl": ("etcd", "go.etcd.io/etcd/etcdctl/v3"),
    "etcdutl": ("etcd", "go.etcd.io/etcd/etcdutl/v3"),
    "coredns": ("coredns", "."),
    **{
        plugin.rpartition("/")[2]: ("cni", f"{_PLUGINS}/{plugin}")
        for plugin in ("main/bridge", "main/loopback", "ipam/host-local", "meta/portmap")
    },
    "helm": ("helm", "helm.sh/helm/v4/cmd/helm"),
    "kueue": ("kueue", f"{KUEUE_MODULE}/cmd/kueue", f"-X {KUEUE_MODULE}/pkg/version.GitVersion=v{KUEUE}"),
    "karpenter": (
        "karpenter",
        f"{KARPENTER_MODULE}/cmd/controller",
        f"-X sigs.k8s.io/karpenter/pkg/operator.Version={KARPENTER}",
    ),
    "kube-bench": ("kube_bench", _KUBE_BENCH, f"-X {_KUBE_BENCH}/cmd.KubeBenchVersion=v{KUBE_BENCH}"),
    **{
        name: (
            "nvidia_toolkit",
            f"{_TOOLKIT}/cmd/{name}",
            f"{_UNRESOLVED} -X {_TOOLKIT}/internal/info.version={TOOLKIT}",
            (),
            True,
        )
        for name in ("nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-runtime")
    },
    "nvidia-device-plugin": (
        "device_plugin",
        f"{_DEVICE_PLUGIN}/cmd/nvidia-device-plugin",
        f"{_UNRESOLVED} -X {_DEVICE_PLUGIN}/internal/info.version=v{DEVICE_PLUGIN}",
        (),
        True,
    ),
    "flannel": ("flannel_plugin", f"{_PLUGINS}/meta/flannel"),
}
SOURCES = {name: GoProgram(name, PROGRAMS / folder, *rest) for name, (folder, *rest) in _PROGRAMS.items()}


def program(name: str) -> Path:
    """The program of that name, built first if need be."""
    return _flanneld().built() if name == "flanneld" else SOURCES[name].built()


def flannel_chart() -> Path:
    """The folder of flannel's Helm chart."""
    return module_folder("programs/flannel", _FLANNEL) / "chart" / "kube-flannel"


def benchmarks() -> Path:
    """The folder with kube-bench's settings and its benchmarks."""
    return module_folder("programs/kube_bench", _KUBE_BENCH) / "cfg"


def device_plugin_chart() -> Path:
    """The folder of the chart of NVIDIA's device plugin."""
    return module_folder("programs/device_plugin", _DEVICE_PLUGIN) / "deployments/helm/nvidia-device-plugin"


def nvml_header() -> Path:
    """The folder of nvml.h, which is a part of NVIDIA's bindings for Go."""
    return module_folder("programs/nvidia_toolkit", "github.com/NVIDIA/go-nvml") / "pkg/nvml"


@functools.cache
def _flanneld() -> GoProgram:
    """flanneld from its main package but for two backends: of Tencent's cloud, and UDP.

    Not every registry has the SDK that the one needs, and the other needs a C compiler.
    """
    main = module_folder("programs/flannel", _FLANNEL) / "main.go"
    lines = main.read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if not any(name in line for name in _LEFT_OUT))
    files = {name: (PROGRAMS / "flannel" / name).read_text() for name in ("go.mod", "go.sum")}
    files["main.go"] = kept
    digest = hashlib.sha256("".join(files.values()).encode()).hexdigest()[:12]
    folder = CACHE / f"flannel-source-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        put(folder / name, text.encode())
    return GoProgram("flanneld", folder, ".", f"-X {_FLANNEL}/pkg/version.Version=v{FLANNEL}")


@functools.cache
def module_folder(folder: str, module: str) -> Path:
    """The folder of a module's source in Go's cache."""
    done = run_go("mod", "download", "-json", module, folder=HERE / folder, timeout_s=600)
    assert done.returncode == 0, f"{module} could not be had:\n{done.stdout}{done.stderr}"
    return Path(json.loads(done.stdout)["Dir"])
