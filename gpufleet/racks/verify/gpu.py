"""GPU nodes: driver, Fabric Manager, libraries, containers, DCGM, health check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from gpufleet.racks.verify.measurements import Reading, RoleMeasurements, again
from gpufleet.racks.verify.mig import cdi_names, layout_of
from gpufleet.racks.verify.result import Result

_ENVIRONMENT = "accept-nvidia-visible-devices-envvar-when-unprivileged"
"""Whether NVIDIA_VISIBLE_DEVICES has an effect in unprivileged containers (NVIDIA Container Toolkit)."""


def nvidia_driver(found: RoleMeasurements) -> Iterator[Result]:
    """The version of the software channel is loaded, and every GPU answers in it."""
    version, gpus = str(found.value("version")), found.value("gpus")

    def answers(text: str) -> Reading:
        cells = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
        # Below the rows nvidia-smi prints warnings, as of a corrupt InfoROM.
        rows = [row for row in cells if len(row) >= 5]
        versions = {row[3] for row in rows}
        off = [row[0] for row in rows if row[4] != "Enabled"]
        measured = f"{len(rows)} GPUs, driver {', '.join(sorted(versions))}"
        if gpus is not None and len(rows) != gpus:
            return Reading(measured, f"{len(rows)} GPUs answer instead of {gpus}")
        if versions != {version}:
            return Reading(measured, f"they answer with driver {', '.join(sorted(versions))}")
        return Reading(measured, f"persistence mode is off on GPU {', '.join(off)}" if off else "")

    yield found.expect(
        "gpus",
        "gpus",
        answers,
        expected=f"{gpus} GPUs, driver {version}",
        remedy="see the node's health check (health-check show)",
    )
    yield found.same("loaded", "loaded", version, remedy="reboot the node, drained")
    yield found.same("installed", "installed", version, remedy=again(found))
    wanted = "Dual MIT/GPL" if found.value("open_modules") else "NVIDIA"
    yield found.same("modules", "license", wanted, remedy=again(found))
    yield found.active("persistence", "persistence", "nvidia-persistenced")


def fabric_manager(found: RoleMeasurements) -> Iterator[Result]:
    """It runs in the driver's version, and has taken every GPU into the NVLink fabric."""
    version = str(found.value("version"))
    yield found.same(
        "version", "version", version, read=lambda text: text.split(":")[-1].strip(), remedy=again(found)
    )
    yield found.same(
        "driver", "driver", version, remedy="Fabric Manager and driver have to be of one version"
    )
    yield found.active("service", "active", "nvidia-fabricmanager")

    def joined(text: str) -> Reading:
        rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
        out = [row[0] for row in rows if row[1] not in ("Completed", "N/A", "[N/A]")]
        measured = f"{len(rows) - len(out)} of {len(rows)} GPUs"
        return Reading(measured, f"GPU {', '.join(out)} not in the NVLink fabric" if out else "")

    yield found.expect(
        "fabric", "state", joined, expected="all GPUs", remedy="see /var/log/fabricmanager.log"
    )


def nccl(found: RoleMeasurements) -> Iterator[Result]:
    """The library of the software channel is there and loads."""
    version = str(found.value("version"))
    yield found.same(
        "version", "library", version, read=lambda text: text.split("-")[0].strip(), remedy=again(found)
    )
    yield found.runs("loads", "loads", remedy="ldconfig -p | grep nccl")


def gpudirect(found: RoleMeasurements) -> Iterator[Result]:
    """The modules that the role installs are loaded."""
    wanted = []
    if found.value("gdrcopy") is True:
        wanted.append("gdrdrv")
    if found.value("storage") is True:
        wanted.append("nvidia_fs")
    if not found.value("open_modules"):
        wanted.append("nvidia_peermem")

    def loaded(text: str) -> Reading:
        there = text.split()
        missing = [name for name in wanted if name not in there]
        return Reading(", ".join(there) or "none", f"{', '.join(missing)} is not loaded" if missing else "")

    yield found.expect(
        "modules", "modules", loaded, expected=", ".join(wanted), remedy=again(found), codes=(0, 2)
    )


def container_toolkit(found: RoleMeasurements) -> Iterator[Result]:
    """The toolkit of the software channel, with all GPUs in its CDI specification."""
    # The lock names the package, with its revision.
    version = str(found.value("version")).partition("-")[0]

    def of(text: str) -> str:
        words = text.splitlines()[0].split()
        return words[-1]

    yield found.same("version", "version", version, read=of, remedy=again(found))
    gpus, layout = found.values.get("nvidia_driver_gpus"), layout_of(found.values)

    def devices(text: str) -> Reading:
        names = [line.strip() for line in text.splitlines() if line.strip().startswith("nvidia.com/gpu=")]
        there = {name.partition("=")[2] for name in names}
        indices = {name for name in there if name.replace(":", "").isdigit()}
        if layout and gpus is not None:
            missing = cdi_names(gpus, layout) - indices
            message = f"{len(missing)} GPUs and instances are missing" if missing else ""
            return Reading(f"{len(indices)} GPUs and instances", message)
        problem = (
            f"{len(indices)} GPUs instead of {gpus}" if gpus is not None and len(indices) != gpus else ""
        )
        return Reading(f"{len(indices)} GPUs", problem)

    yield found.expect(
        "cdi",
        "devices",
        devices,
        expected=f"{gpus} GPUs",
        remedy="systemctl restart nvidia-cdi-refresh.service",
    )
    if found.values.get("container_toolkit_environment_needs_privileges"):

        def environment(text: str) -> Reading:
            setting = re.search(rf"^\s*{_ENVIRONMENT}\s*=\s*(\w+)", text, re.MULTILINE)
            value = setting[1] if setting else "true (default)"
            problem = "" if value == "false" else "unprivileged containers get GPUs that they do not request"
            return Reading(value, problem)

        yield found.expect("environment", "configuration", environment, expected="false", remedy=again(found))


def dcgm(found: RoleMeasurements) -> Iterator[Result]:
    """The host engine sees all GPUs and watches them, and the exporter has their metrics."""
    gpus = found.value("gpus")

    def seen(text: str) -> Reading:
        count = next(
            int(line.split()[0]) for line in text.splitlines() if "GPUs found" in line or "GPU found" in line
        )
        problem = f"{count} GPUs instead of {gpus}" if gpus is not None and count != gpus else ""
        return Reading(f"{count} GPUs", problem)

    yield found.expect("gpus", "discovery", seen, expected=f"{gpus} GPUs", remedy="dcgmi discovery -l")

    yield found.expect("health", "health", dcgm_health, expected="Healthy", remedy="dcgmi health -c")

    def exported(text: str) -> Reading:
        uuids = {
            line.partition('UUID="')[2].partition('"')[0] for line in text.splitlines() if 'UUID="' in line
        }
        problem = f"{len(uuids)} GPUs instead of {gpus}" if gpus is not None and len(uuids) != gpus else ""
        return Reading(f"{len(uuids)} GPUs", problem)

    yield found.expect(
        "exporter",
        "exporter",
        exported,
        expected=f"{gpus} GPUs",
        remedy="systemctl status nvidia-dcgm-exporter",
    )


_IMEX = re.compile(r"^IMEX \S+ status is ")


def dcgm_health(text: str) -> Reading:
    """Read `dcgmi health -c -j`: failures are a problem, warnings are printed.

    DCGM 4 reports IMEX also on nodes whose NVLinks end inside, which need none: it is not a problem here, and
    the node's health check reports it where it matters. Messages of DCGM 4.6.0 (dcgmlib/dcgm_errors.h).
    """
    body = json.loads(text[text.index("{") :])["body"]
    overall = str(body["Overall Health"]["value"])
    errors: dict[str, list[str]] = {"Warning": []}
    count = 0
    for group, entities in body.items():
        for number, entity in entities.get("children", {}).items():
            for system, error in entity["children"]["Errors"]["children"].items():
                words = " ".join(" ".join(map(str, error.get("overflow", []))).split())
                count += 1
                if not _IMEX.match(words):
                    errors.setdefault(str(error["value"]), []).append(f"{group} {number} {words or system}")
    failures = [each for value, words in errors.items() if value != "Warning" for each in words]
    if failures or (overall != "Healthy" and not count):
        return Reading(overall, f"DCGM reports {overall}: {'; '.join(failures)[:200]}".rstrip(": "))
    return Reading("Healthy" + (f" ({'; '.join(errors['Warning'])[:200]})" if errors["Warning"] else ""))


def health_check(found: RoleMeasurements) -> Iterator[Result]:
    """The node's health check finds no reason to drain it, and has the values of the same fleet file."""
    show = found.found.get("health_check_show", {})
    text = str(show.get("stdout", ""))
    drains = []
    if show.get("rc") == 1 and text.lstrip().startswith("{"):
        drains = [item for item in json.loads(text)["findings"] if item["action"] == "drain"]
    for item in drains:
        message = f"{item['subject']} {item['message']}".strip()
        yield Result(
            found.host, found.role, item["check"], "fail", "unfit for jobs", "fit", message, item["remedy"]
        )
    if not drains:
        yield found.expect(
            "healthy", "show", _healthy, expected="fit for jobs", remedy="run health-check show on the node"
        )

    def configured(text: str) -> Reading:
        there = json.loads(text)
        names = ("gpus", "gpu", "fabric_kind", "link_gbps", "driver_version", "slurm", "kubernetes")
        wrong = [name for name in names if there.get(name) != found.value(name)]
        return Reading(
            "of another fleet file" if wrong else "current", f"{', '.join(wrong)} differ" if wrong else ""
        )

    yield found.expect("configuration", "config", configured, expected="current", remedy=again(found))
    if not found.value("slurm"):
        yield found.active("timer", "timer", "gpufleet-health.timer")


def _healthy(text: str) -> Reading:
    advice = [f"{item['subject']} {item['message']}".strip() for item in json.loads(text)["findings"]]
    return Reading("fit" + (f" ({'; '.join(advice)})" if advice else ""))


def pyxis_enroot(found: RoleMeasurements) -> Iterator[Result]:
    """Enroot runs and srun has the options of Pyxis, on sites whose mirror has their packages."""
    if not found.found and not found.values.get("base_package_mirror"):
        return
    yield found.expect(
        "enroot",
        "version",
        lambda text: Reading(text.strip(), "" if text.strip()[:1].isdigit() else "enroot says no version"),
        expected="a version",
        remedy=again(found),
    )

    def options(text: str) -> Reading:
        count = int(text)
        return Reading(f"{count} options", "" if count else "srun has no option --container-image")

    yield found.expect(
        "pyxis", "options", options, expected="--container-image", remedy="see plugstack.conf", codes=(0, 1)
    )
