"""Programs of a Kubernetes cluster besides Kubernetes' own, from their Go modules (tests/go_programs.py).

Most are built in the module of `releases/` that Kubernetes itself is built in, with the same versions of what
they share: Go compiles each package once. programs/README.md has the others.
"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path

from gpufleet.files import put
from tests.go_programs import CACHE, GoProgram
from tests.kube.build import MINOR, pinned
from tests.programs import run_go

HERE = Path(__file__).parent
CLUSTER_MODULE = f"releases/{MINOR}"
"""The folder of the module that most programs are built in."""
_FLANNEL = "github.com/flannel-io/flannel"
_LEFT_OUT = ("/backend/tencentvpc", "/backend/udp")
_CONTAINERD = "github.com/containerd/containerd/v2"
_PLUGINS = "github.com/containernetworking/plugins/plugins"
KUEUE_MODULE = "sigs.k8s.io/kueue"
KARPENTER_MODULE = "github.com/aws/karpenter-provider-aws"
_KUBE_BENCH = "github.com/aquasecurity/kube-bench"
_TOOLKIT = "github.com/NVIDIA/nvidia-container-toolkit"
_DEVICE_PLUGIN = "github.com/NVIDIA/k8s-device-plugin"


CONTAINERD = pinned(CLUSTER_MODULE, _CONTAINERD)
ETCD = pinned(CLUSTER_MODULE, "go.etcd.io/etcd/server/v3")
FLANNEL = pinned(CLUSTER_MODULE, _FLANNEL)
CRICTL = pinned("programs/crictl", "sigs.k8s.io/cri-tools")
HELM = pinned("programs/kueue", "helm.sh/helm/v4")
KUEUE = pinned("programs/kueue", KUEUE_MODULE)
KARPENTER = pinned(CLUSTER_MODULE, KARPENTER_MODULE)
KUBE_BENCH = pinned(CLUSTER_MODULE, _KUBE_BENCH)
TOOLKIT = pinned(CLUSTER_MODULE, _TOOLKIT)
DEVICE_PLUGIN = pinned(CLUSTER_MODULE, _DEVICE_PLUGIN)
CNI = pinned(CLUSTER_MODULE, "github.com/containernetworking/plugins")

_STAMP = f"-X {_CONTAINERD}/version.Version={CONTAINERD}"
# Storage that no host of a rack in a box has, and whose libraries need a C compiler.
_TAGS = ("no_btrfs", "no_devmapper", "no_zfs")
# Functions of NVML are looked up where the library is loaded, not where the program is linked (as in the
# makefiles of both modules).
_UNRESOLVED = "'-extldflags=-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files -Wl,-z,lazy'"
_PROGRAMS = {
    **{
        name: (CLUSTER_MODULE, f"{_CONTAINERD}/cmd/{name}", _STAMP, _TAGS)
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    },
    "crictl": (
        "programs/crictl",
        "sigs.k8s.io/cri-tools/cmd/crictl",
        f"-X sigs.k8s.io/cri-tools/pkg/version.Version=v{CRICTL}",
    ),
    "etcd": (CLUSTER_MODULE, "go.etcd.io/etcd/server/v3"),
    "etcdctl": (CLUSTER_MODULE, "go.etcd.io/etcd/etcdctl/v3"),
    "etcdutl": (CLUSTER_MODULE, "go.etcd.io/etcd/etcdutl/v3"),
    "coredns": (CLUSTER_MODULE, "./coredns"),
    **{
        plugin.rpartition("/")[2]: (CLUSTER_MODULE, f"{_PLUGINS}/{plugin}")
        for plugin in ("main/bridge", "main/loopback", "ipam/host-local", "meta/portmap")
    },
    "helm": ("programs/kueue", "helm.sh/helm/v4/cmd/helm"),
    "kueue": (
        "programs/kueue",
        f"{KUEUE_MODULE}/cmd/kueue",
        f"-X {KUEUE_MODULE}/pkg/version.GitVersion=v{KUEUE}",
    ),
    "karpenter": (
        CLUSTER_MODULE,
        f"{KARPENTER_MODULE}/cmd/controller",
        f"-X sigs.k8s.io/karpenter/pkg/operator.Version={KARPENTER}",
    ),
    "kube-bench": (CLUSTER_MODULE, _KUBE_BENCH, f"-X {_KUBE_BENCH}/cmd.KubeBenchVersion=v{KUBE_BENCH}"),
    **{
        name: (
            CLUSTER_MODULE,
            f"{_TOOLKIT}/cmd/{name}",
            f"{_UNRESOLVED} -X {_TOOLKIT}/internal/info.version={TOOLKIT}",
            (),
            True,
        )
        for name in ("nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-runtime")
    },
    "nvidia-device-plugin": (
        CLUSTER_MODULE,
        f"{_DEVICE_PLUGIN}/cmd/nvidia-device-plugin",
        f"{_UNRESOLVED} -X {_DEVICE_PLUGIN}/internal/info.version=v{DEVICE_PLUGIN}",
        (),
        True,
    ),
    "flannel": ("programs/flannel_plugin", f"{_PLUGINS}/meta/flannel"),
}
SOURCES = {name: GoProgram(name, HERE / folder, *rest) for name, (folder, *rest) in _PROGRAMS.items()}


def program(name: str) -> Path:
    """The program of that name, built first if need be."""
    return _flanneld().built() if name == "flanneld" else SOURCES[name].built()


def flannel_chart() -> Path:
    """The folder of flannel's Helm chart."""
    return module_folder(CLUSTER_MODULE, _FLANNEL) / "chart" / "kube-flannel"


def benchmarks() -> Path:
    """The folder with kube-bench's settings and its benchmarks."""
    return module_folder(CLUSTER_MODULE, _KUBE_BENCH) / "cfg"


def device_plugin_chart() -> Path:
    """The folder of the chart of NVIDIA's device plugin."""
    return module_folder(CLUSTER_MODULE, _DEVICE_PLUGIN) / "deployments/helm/nvidia-device-plugin"


def nvml_header() -> Path:
    """The folder of nvml.h, which is a part of NVIDIA's bindings for Go."""
    return module_folder(CLUSTER_MODULE, "github.com/NVIDIA/go-nvml") / "pkg/nvml"


@functools.cache
def _flanneld() -> GoProgram:
    """flanneld from its main package but for two backends: of Tencent's cloud, and UDP.

    Not every registry has the SDK that the one needs, and the other needs a C compiler.
    """
    main = module_folder(CLUSTER_MODULE, _FLANNEL) / "main.go"
    lines = main.read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if not any(name in line for name in _LEFT_OUT))
    files = {name: (HERE / CLUSTER_MODULE / name).read_text() for name in ("go.mod", "go.sum")}
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
