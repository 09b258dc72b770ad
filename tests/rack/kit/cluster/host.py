"""Files of a host's layer that prepare a container for a kubelet and containerd."""

from __future__ import annotations

from pathlib import Path

SERVICE = """\
[Unit]
Description=Prepare this container for a kubelet
DefaultDependencies=no
After=hardware.service
Before=sysinit.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/lib/kubernetes/prepare-host
"""
PREPARE = """\
#!/bin/sh
# The kubelet watches the kernel's log, which a container does not have.
ln -sf null /dev/kmsg
# systemd-nspawn mounts the hierarchies of cgroup v1 read-only.
for kind in /sys/fs/cgroup/*; do
  mountpoint -q "$kind" && mount -o remount,bind,rw "$kind"
done
# An overlay cannot have its upper layer on an overlay, such as the root of this host.
mkdir -p /srv/hardware/containerd /var/lib/containerd
mountpoint -q /var/lib/containerd || mount --bind /srv/hardware/containerd /var/lib/containerd
exit 0
"""
KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# The machine may have control groups of version 1, and a container cannot divide its own further.
failCgroupV1: false
enforceNodeAllocatable: []
"""


def write(layer: Path) -> None:
    """Write the files into a layer."""
    units = layer / "usr/lib/systemd/system"
    _write(units / "kubernetes-host.service", SERVICE)
    wants = units / "sysinit.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / "kubernetes-host.service").symlink_to("../kubernetes-host.service")
    _write(layer / "usr/lib/kubernetes/prepare-host", PREPARE, 0o755)
    _write(layer / "etc/kubernetes/kubelet.conf.d/50-container.conf", KUBELET)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
