"""Packages of Kubernetes and containerd, named and laid out as those of their repositories.

The programs are in the layer that all hosts share; the packages have links to them, so that a host neither
unpacks nor keeps a gigabyte of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from vendor.deb import Package

LIBRARY = "usr/lib/kubernetes"
CNI_FOLDER = "opt/cni/bin"
KUBELET_SERVICE = """\
[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
"""
KUBEADM_CONF = """\
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \\
  --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS \\
  $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
"""
CONTAINERD_SERVICE = """\
[Unit]
Description=containerd container runtime
After=network.target local-fs.target

[Service]
ExecStart=/usr/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
"""


def place(layer: Path, folder: str, programs: Mapping[str, Path]) -> dict[str, str]:
    """Put programs into the shared layer; each name with where it is."""
    here = layer / LIBRARY / folder
    here.mkdir(parents=True, exist_ok=True)
    for name, source in programs.items():
        target = here / name
        try:
            target.hardlink_to(source)
        except OSError:
            target.write_bytes(source.read_bytes())
        target.chmod(0o755)
    return {name: f"/{LIBRARY}/{folder}/{name}" for name in programs}


def of_kubernetes(release: str, places: Mapping[str, str]) -> Iterator[Package]:
    """kubelet, kubeadm and kubectl of a release."""
    version = f"{release}-1.1"
    links = {name: {f"usr/bin/{name}": places[name]} for name in ("kubelet", "kubeadm", "kubectl")}
    yield Package(
        "kubelet",
        version,
        "iptables, kubernetes-cni, iproute2, mount, util-linux",
        links=links["kubelet"],
        services={"kubelet.service": KUBELET_SERVICE},
        files={"usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": KUBEADM_CONF},
    )
    yield Package("kubeadm", version, "cri-tools", links=links["kubeadm"])
    yield Package("kubectl", version, links=links["kubectl"])


def of_runtime(
    containerd: tuple[str, Mapping[str, str]], crictl: tuple[str, str], cni: tuple[str, Mapping[str, str]]
) -> Iterator[Package]:
    """containerd.io, cri-tools and kubernetes-cni, each with its version and where its programs are."""
    version, places = containerd
    yield Package(
        "containerd.io",
        f"{version}-1~debian.12~bookworm",
        "runc",
        conflicts="containerd",
        links={f"usr/bin/{name}": where for name, where in places.items()},
        services={"containerd.service": CONTAINERD_SERVICE},
        files={"etc/containerd/config.toml": 'disabled_plugins = ["cri"]\n'},
    )
    yield Package("cri-tools", f"{crictl[0]}-1.1", links={"usr/bin/crictl": crictl[1]})
    yield Package(
        "kubernetes-cni",
        f"{cni[0]}-1.1",
        links={f"{CNI_FOLDER}/{name}": where for name, where in cni[1].items()},
    )


def of_helm(version: str, where: str) -> Package:
    """Helm."""
    return Package("helm", f"{version}-1", links={"usr/sbin/helm": where})
