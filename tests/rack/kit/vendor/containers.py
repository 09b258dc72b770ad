"""Containers on GPUs: NVIDIA's toolkit, Enroot and Pyxis."""

from __future__ import annotations

from collections.abc import Iterator

from vendor.deb import Package

TOOLKIT = ("1.18.0-1", "1.19.1-1", "1.20.0-1")
ENROOT = ("3.5.0-1", "4.0.1-1")

# `nvidia-ctk cdi generate` lists the devices there are; `runtime configure` writes the runtime in. A GPU in
# MIG mode is there as its instances (`0:0`) and not as a whole (NVIDIA Container Toolkit, CDI support).
CTK = """\
#!/bin/sh
names() {{
  nvidia-smi --query-gpu=index,mig.mode.current --format=csv,noheader | sed -n '/Enabled/!s/,.*//p'
  nvidia-smi -L | awk '/^GPU/ {{ gpu = $2 + 0 }}
    /^ +MIG/ {{ for (n = 1; n < NF; n++) if ($n == "Device") print gpu ":" $(n + 1) + 0 }}'
}}
case "$1 $2" in
"--version "*|"-v "*) echo "NVIDIA Container Toolkit CLI version {version}"; exit 0 ;;
"cdi generate")
  out=/dev/stdout
  for word; do case "$word" in --output=*) out=${{word#--output=}} ;; esac; done
  nvidia-smi -L >/dev/null || {{ echo 'ERRO[0000] failed to initialize NVML' >&2; exit 1; }}
  {{ echo 'cdiVersion: 0.5.0'; echo 'kind: nvidia.com/gpu'; echo 'devices:'
    for name in $(names); do
      printf -- '- name: "%s"\\n  containerEdits:\\n    deviceNodes:\\n' "$name"
      printf -- '    - path: /dev/nvidia%s\\n' "${{name%%:*}}"
    done; }} >"$out"
  exit 0 ;;
"cdi list") names | sort -V | sed 's|^|nvidia.com/gpu=|'; exit 0 ;;
"runtime configure") exit 0 ;;
"config "*)
  file=/etc/nvidia-container-runtime/config.toml
  for word; do
    case "$word" in --set=*) word=${{word#--set=}}; sed -i "1i ${{word%%=*}} = ${{word#*=}}" $file ;; esac
  done
  cat $file; exit 0 ;;
esac
exit 0
"""
# From 1.18 on the toolkit keeps the CDI specification current itself.
CDI_SERVICE = """\
[Unit]
Description=Refresh NVIDIA CDI specification file
After=multi-user.target

[Service]
Type=oneshot
ExecStartPre=/bin/mkdir -p /var/run/cdi
ExecStart=/usr/bin/nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml

[Install]
WantedBy=multi-user.target
"""
CDI_PATH = """\
[Unit]
Description=Trigger CDI refresh on NVIDIA driver install / uninstall

[Path]
PathChanged=/usr/bin/nvidia-ctk

[Install]
WantedBy=multi-user.target
"""
CLI = """\
#!/bin/sh
case "$*" in
*-V*|*--version*) echo "cli-version: {version}"; echo "lib-version: {version}" ;;
*info*) nvidia-smi --query-gpu=index,name,uuid --format=csv,noheader ;;
esac
"""
ENROOT_TOOL = """\
#!/bin/sh
[ "$1" = version ] && {{ echo {version}; exit 0; }}
[ "$1" = list ] && exit 0
echo "[ERROR] Command not found: $1" >&2
exit 1
"""


def packages() -> Iterator[Package]:
    for version in TOOLKIT:
        short = version.split("-")[0]
        same = f"(= {version})"
        yield Package("libnvidia-container1", version)
        yield Package(
            "libnvidia-container-tools",
            version,
            f"libnvidia-container1 {same}",
            tools={"usr/bin/nvidia-container-cli": CLI.format(version=short)},
        )
        yield Package(
            "nvidia-container-toolkit-base",
            version,
            files={"etc/nvidia-container-runtime/config.toml": "[nvidia-container-cli]\n"},
            tools={"usr/bin/nvidia-ctk": CTK.format(version=short)},
            services={"nvidia-cdi-refresh.service": CDI_SERVICE, "nvidia-cdi-refresh.path": CDI_PATH},
        )
        depends = f"nvidia-container-toolkit-base {same}, libnvidia-container-tools {same}"
        yield Package("nvidia-container-toolkit", version, depends)
    for version in ENROOT:
        short = version.split("-")[0]
        yield Package(
            "enroot",
            version,
            tools={"usr/bin/enroot": ENROOT_TOOL.format(version=short)},
            files={"etc/enroot/enroot.conf": "#ENROOT_RUNTIME_PATH /run/enroot/user-$(id -u)\n"},
        )
        yield Package("enroot+caps", version, f"enroot (= {version})")
