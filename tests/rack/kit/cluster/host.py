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
# The kubelet watches the kernel's log, which a container does not have. A link to /dev/null would hide both
# from services with ProtectKernelLogs.
rm -f /dev/kmsg
mknod -m 644 /dev/kmsg c 1 3
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
# All hosts share the disk of the machine, which may be nearly full.
evictionHard: {nodefs.available: 1Gi, nodefs.inodesFree: 1%, imagefs.available: 1Gi}
# The hosts have no name server. CoreDNS does not start without one to forward to: this one does not exist.
resolvConf: /usr/lib/kubernetes/resolv.conf
# The kernel is the machine's, whose settings a container cannot change.
protectKernelDefaults: false
"""
# A container may not protect processes from the kernel's memory killer: that needs CAP_SYS_RESOURCE. In the
# version of the role's file: containerd drops settings where it merges files of different versions.
CONTAINERD = """\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
"""


def write(layer: Path) -> None:
    """Write the files into a layer."""
    units = layer / "usr/lib/systemd/system"
    _write(units / "kubernetes-host.service", SERVICE)
    wants = units / "sysinit.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / "kubernetes-host.service").symlink_to("../kubernetes-host.service")
    _write(layer / "usr/lib/kubernetes/prepare-host", PREPARE, 0o755)
    _write(layer / "usr/lib/kubernetes/resolv.conf", "nameserver 192.0.2.1\n")
    _write(layer / "etc/containerd/conf.d/50-container.toml", CONTAINERD)
    _write(layer / "etc/kubernetes/kubelet.conf.d/50-container.conf", KUBELET)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
