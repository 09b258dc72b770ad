"""Programs that user data installs on nodes as systemd units: they run at each boot."""

from __future__ import annotations

import shlex

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

_SCRATCH_UNIT = """\
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


# Modules, their order, credits and the rule that prefers EFA (udsp): FSx for Lustre User Guide, "Configuring
# EFA clients"; EKS User Guide, "Optimize Amazon FSx for Lustre performance on nodes (EFA)".
_LNET = """\
#!/bin/bash
# gpufleet-lnet <EFA interfaces> [<folder of RDMA devices>]: Lustre's network over EFA, and over TCP for what
# EFA does not reach. It must run before a file system is mounted.
set -euo pipefail
wanted=$1
folder=${2:-/sys/class/infiniband}
fail() { echo "gpufleet-lnet: $1; file systems are mounted over TCP" >&2; exit 1; }
added() { lnetctl net show --net efa 2>/dev/null | grep -c @efa || true; }
devices=()
for path in "$folder"/*; do
  driver=$(readlink -f "$path/device/driver" || true)
  if [ "${driver##*/}" = efa ]; then devices+=("${path##*/}"); fi
done
count=${#devices[@]}
if [ "$count" -lt "$wanted" ]; then fail "this node has $count EFA interfaces, and needs $wanted"; fi
if ! command -v lnetctl >/dev/null; then
  dnf -q -y install lustre-client || fail "there is no Lustre client, and dnf cannot install it"
fi
if [ "$(added)" = "$wanted" ]; then exit 0; fi
interface=$(ip -o -4 route show default | sed -n '1s/.* dev \\([^ ]*\\).*/\\1/p')
modprobe lnet
modprobe kefalnd ipif_name="$interface" || fail "this kernel has no module of Lustre for EFA (kefalnd)"
modprobe ksocklnd
lnetctl lnet configure
for net in efa tcp; do lnetctl net del --net $net 2>/dev/null || true; done
lnetctl net add --net tcp --if "$interface"
# Neighbours share a PCIe switch: the interfaces are spread over all of them.
for ((index = 0; index < wanted; index++)); do
  lnetctl net add --net efa --if "${devices[index * count / wanted]}" --peer-credits 32
done
lnetctl set discovery 1
lnetctl udsp show 2>/dev/null | grep -q efa || lnetctl udsp add --src efa --priority 0
modprobe lustre
if [ "$(added)" != "$wanted" ]; then fail "LNet has $(added) EFA interfaces, and needs $wanted"; fi
"""

_LNET_UNIT = """\
[Unit]
Description=Lustre network over EFA
Wants=network-online.target
After=network-online.target
Before=remote-fs-pre.target gpufleet-cloud-node.service slurmd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/gpufleet-lnet %d

[Install]
WantedBy=multi-user.target
"""


def scratch_program() -> str:
    """Return the program that mounts the drives of a Slurm node; it runs at each start of the node, since
    the drives are empty after a stop, and formats only drives without its file system."""
    return _STRIPE_AND_MOUNT


def mount_scratch(mount: str) -> str:
    """Return the shell script that installs and starts the mount of a Slurm node's NVMe drives."""
    unit = _SCRATCH_UNIT % shlex.quote(mount.replace("%", "%%"))
    return _installed("gpufleet-scratch", _STRIPE_AND_MOUNT, unit)


def lnet_program() -> str:
    """Return the program that brings EFA interfaces into Lustre's network."""
    return _LNET


def lustre_over_efa(interfaces: int) -> str:
    """Return the shell script that brings that many EFA interfaces of a node into Lustre's network."""
    return _installed("gpufleet-lnet", _LNET, _LNET_UNIT % interfaces)


def _installed(name: str, program: str, unit: str) -> str:
    """Return a shell script that installs a program and its unit, and starts it."""
    return "\n".join(
        [
            "#!/bin/bash",
            "set -euo pipefail",
            f"cat > /usr/local/sbin/{name} <<'GPUFLEET'",
            f"{program}GPUFLEET",
            f"chmod 0755 /usr/local/sbin/{name}",
            f"cat > /etc/systemd/system/{name}.service <<'GPUFLEET'",
            f"{unit}GPUFLEET",
            "systemctl daemon-reload",
            f"systemctl enable --now {name}.service",
            "",
        ]
    )
