"""The user data of a node group: gpufleet's own parts for NVMe drives, then those of the fleet file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from gpufleet.catalog import InstanceType
from gpufleet.plan.image_models import LocalNvmePlan
from gpufleet.spec.models import CloudSite, NodeGroup

SCRATCH = "/scratch"
"""Where Slurm nodes see their NVMe drives unless the fleet file says so."""

STRIPE_IN_EKS = """\
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0
"""
"""nodeadm stripes all instance store volumes and moves containerd, the kubelet's folder and pod logs there
(awslabs/amazon-eks-ami: nodeadm API, LocalStorageOptions; templates/al2023/runtime/bin/setup-local-disks)."""

_STRIPE_AND_MOUNT = """\
#!/bin/bash
# gpufleet-scratch <mount point> [<folder of device links>]: mount the node's NVMe drives, striped.
set -euo pipefail
target=$1
links=${2:-/dev/disk/by-id}
label=gpufleet-scratch
if mountpoint -q "$target"; then exit 0; fi
mkdir -p "$target"
# AWS's Deep Learning images stripe the drives with LVM and mount them: the drives are in use then.
if systemctl start dlami-nvme.service 2>/dev/null && mountpoint -q /opt/dlami/nvme; then
  mkdir -p "/opt/dlami/nvme/$label"
  chmod 1777 "/opt/dlami/nvme/$label"
  mount --bind "/opt/dlami/nvme/$label" "$target"
  mount -o remount,bind,nosuid,nodev,noatime "$target"
  exit 0
fi
device=$(blkid -L "$label" || true)
if [ -z "$device" ]; then
  drives=()
  while IFS= read -r drive; do drives+=("$drive"); done < <(
    find "$links" -name 'nvme-Amazon_EC2_NVMe_Instance_Storage_*' ! -name '*-part*' -exec readlink -f {} + \\
      | sort -u)
  case ${#drives[@]} in
    0) echo "gpufleet-scratch: this node has no instance store volume" >&2; exit 1 ;;
    1) device=${drives[0]} ;;
    *) device=/dev/md/$label
       mdadm --create "$device" --run --level=0 --raid-devices=${#drives[@]} "${drives[@]}" ;;
  esac
  mkfs.ext4 -q -m 0 -L "$label" "$device"
fi
mount -o nosuid,nodev,noatime "$device" "$target"
chmod 1777 "$target"
"""

_UNIT = """\
[Unit]
Description=Scratch file system on the NVMe drives
After=local-fs.target dlami-nvme.service
Before=slurmd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/gpufleet-scratch %s

[Install]
WantedBy=multi-user.target
"""


def scratch_program() -> str:
    """Return the program that mounts the drives of a Slurm node; it runs at each start of the node, since
    the drives are empty after a stop, and formats only drives without its file system."""
    return _STRIPE_AND_MOUNT


def mount_scratch(mount: str) -> str:
    """Return the shell script that installs and starts the mount of a Slurm node's NVMe drives."""
    return "\n".join(
        [
            "#!/bin/bash",
            "set -euo pipefail",
            "cat > /usr/local/sbin/gpufleet-scratch <<'GPUFLEET'",
            _STRIPE_AND_MOUNT + "GPUFLEET",
            "chmod 0755 /usr/local/sbin/gpufleet-scratch",
            "cat > /etc/systemd/system/gpufleet-scratch.service <<'GPUFLEET'",
            _UNIT % shlex.quote(mount.replace("%", "%%")) + "GPUFLEET",
            "systemctl daemon-reload",
            "systemctl enable --now gpufleet-scratch.service",
            "",
        ]
    )


def plan_local_nvme(site: CloudSite, group: NodeGroup, types: Sequence[InstanceType]) -> LocalNvmePlan | None:
    """Return the striped drives of a group's nodes; None if they have none or are left unused."""
    wanted = group.local_nvme
    if wanted.use == "none" or not types or not all(item.nvme for item in types):
        return None
    drives = sum(count for count, _ in types[0].nvme)
    size = sum(count * each for count, each in types[0].nvme)
    slurm = site.scheduler == "slurm"
    return LocalNvmePlan(drives, size, (wanted.mount or SCRATCH) if slurm else None)


def plan_user_data(group: NodeGroup, local_nvme: LocalNvmePlan | None) -> tuple[str, ...]:
    """Return the parts of the user data, gpufleet's own first: of two NodeConfigs the last one wins."""
    own: tuple[str, ...] = ()
    if local_nvme is not None:
        own = (STRIPE_IN_EKS if local_nvme.mount is None else mount_scratch(local_nvme.mount),)
    return (*own, *group.user_data)
