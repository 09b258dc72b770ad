"""MIG: nvidia-smi's output is parsed, and nothing changes under jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils import gpu_operator, mig, node_guard, workloads

from tests.unit.ansible.collection.conftest import PLUGINS, Programs, load

Run = Callable[..., dict[str, Any]]
module = load("mig")
# As nvidia-smi of branch 580 prints them (NVIDIA MIG User Guide, Getting Started with MIG).
PROFILES = """\
+-------------------------------------------------------------------------------+
| GPU instance profiles:                                                        |
| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                                Free/Total   GiB              CE    JPEG  OFA  |
|===============================================================================|
|   0  MIG 1g.10gb         19     7/7        9.75       No     16     1     0   |
|                                                               1     1     0   |
+-------------------------------------------------------------------------------+
|   0  MIG 1g.10gb+me      20     1/1        9.75       No     16     1     0   |
|                                                               1     1     1   |
+-------------------------------------------------------------------------------+
|   0  MIG 3g.40gb          9     2/2        39.50      No     60     3     0   |
|                                                               3     3     0   |
+-------------------------------------------------------------------------------+
"""
INSTANCES = """\
+----------------------------------------------------+
| GPU instances:                                     |
| GPU   Name          Profile  Instance   Placement  |
|                       ID       ID       Start:Size |
|====================================================|
|   0  MIG 3g.40gb       9        1          4:4     |
+----------------------------------------------------+
|   0  MIG 3g.40gb       9        2          0:4     |
+----------------------------------------------------+
"""
COMPUTE = """\
+--------------------------------------------------------------------+
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
|   0      1       MIG 3g.40gb          2         0          0:3     |
+--------------------------------------------------------------------+
"""
# A GPU in MIG mode with two instances, one without a compute instance; it accepts all commands.
SMI = """\
case "$*" in
*--query-gpu*)
  mode=$(cat {folder}/mode)
  echo "0, GPU-aaaa, $mode, $mode"; echo '1, GPU-bbbb, [N/A], [N/A]';;
*--query-compute-apps*) cat {folder}/apps;;
*-lgip*) cat {folder}/profiles;;
*-lgi*)
  [ -s {folder}/instances ] || { echo 'No GPU instances found: Not Found'; exit 6; }
  cat {folder}/instances;;
*-lci*)
  [ -s {folder}/compute ] || { echo 'No compute instances found: Not Found'; exit 6; }
  cat {folder}/compute;;
*-dci*) : >{folder}/compute;;
*-dgi*) : >{folder}/instances;;
*-mig*1) echo Enabled >{folder}/mode;;
*-mig*0) echo Disabled >{folder}/mode;;
*-cgi*) cp {folder}/made {folder}/instances; cp {folder}/made-compute {folder}/compute;;
*) exit 2;;
esac
"""


@pytest.fixture
def host(programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that says what nvidia-smi prints; no scheduler, and files of /proc and /run in it."""
    for name, text in {
        "mode": "Enabled\n",
        "profiles": PROFILES,
        "instances": INSTANCES,
        "compute": COMPUTE,
        "apps": "",
        "made": INSTANCES,
        "made-compute": COMPUTE + "|   0      2       MIG 3g.40gb          2         0          0:3     |\n",
        "minors": "".join(
            f"gpu0/gi{gi}/access {3 + 9 * gi}\ngpu0/gi{gi}/ci0/access {4 + 9 * gi}\n" for gi in range(15)
        ),
    }.items():
        (tmp_path / name).write_text(text)
    programs.add("nvidia-smi", SMI.replace("{folder}", str(tmp_path)))
    programs.add("systemctl", "exit 3")
    # As on a host without Slurm, whatever is installed here.
    programs.add("scontrol", "exit 127")
    monkeypatch.setattr(mig, "STATE", tmp_path / "run" / "mig.json")
    monkeypatch.setattr(mig, "MINORS", tmp_path / "minors")
    return tmp_path


def arguments(**changes: Any) -> dict[str, Any]:
    return {"layout": {"0": {"3g.40gb": 2}}} | changes


def test_nvidia_smi_output_is_parsed(host: Path) -> None:
    assert mig.profiles("0") == {"1g.10gb": 19, "1g.10gb+me": 20, "3g.40gb": 9}
    assert mig.instances("0") == [
        {"profile": "3g.40gb", "gi": 1, "ci": 0, "start": 4},
        {"profile": "3g.40gb", "gi": 2, "ci": None, "start": 0},
    ]
    assert [(gpu["index"], gpu["able"], gpu["enabled"]) for gpu in mig.gpus()] == [
        ("0", True, True),
        ("1", False, False),
    ]


def test_unusable_instance_is_created_again(host: Path, run: Run, programs: Programs) -> None:
    checked = run(module, check=True, **arguments())
    assert checked["gpus"] == ["0"] and not [c for c in programs.called("nvidia-smi") if "-dgi" in c]
    answer = run(module, **arguments())
    assert answer["changed"] and answer["diff"] == checked["diff"]
    verbs = [
        c for c in programs.called("nvidia-smi") if any(v in c for v in ("-dci", "-dgi", "-cgi", "-mig "))
    ]
    assert verbs == [
        "nvidia-smi mig -i 0 -dci",
        "nvidia-smi mig -i 0 -dgi",
        "nvidia-smi mig -i 0 -cgi 9,9 -C",
    ]
    assert [item["files"] for item in answer["ansible_facts"]["gpufleet_mig"]] == [
        ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"],
        ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"],
    ]
    assert json.loads(mig.STATE.read_text()) == answer["ansible_facts"]["gpufleet_mig"]
    assert not run(module, **arguments())["changed"]


@pytest.mark.parametrize(
    ("layout", "reported"),
    [
        ({"1": {"1g.10gb": 7}}, "GPU 1 cannot be divided"),
        ({"9": {"1g.10gb": 7}}, "There is no GPU 9: the driver finds 2"),
        ({"0": {"1g.12gb": 7}}, "it has 1g.10gb, 1g.10gb+me, 3g.40gb"),
    ],
)
def test_layout_that_does_not_fit_is_refused_before_instances_are_destroyed(
    host: Path, run: Run, programs: Programs, layout: dict[str, Any], reported: str
) -> None:
    assert reported in run(module, **arguments(layout=layout))["msg"]
    if "0" in layout:
        # So does the check of the node before the boot files are written.
        assert reported in run(module, ask=True, **arguments(layout=layout))["msg"]
    assert not [c for c in programs.called("nvidia-smi") if "-dci" in c or "-cgi" in c]


def test_processes_on_the_gpu_stop_the_change(host: Path, run: Run, programs: Programs) -> None:
    (host / "apps").write_text("GPU-aaaa, 4711, python3\n")
    assert "processes use them: 4711 python3" in run(module, **arguments())["msg"]
    assert not [c for c in programs.called("nvidia-smi") if "-dci" in c]


def test_units_that_use_gpus_are_always_started_again(host: Path, run: Run, programs: Programs) -> None:
    programs.add("systemctl", "exit 0")
    (host / "apps").write_text("GPU-aaaa, 4711, python3\n")
    run(module, **arguments(pause=["a.service", "b.service"]))
    calls = [call for call in programs.called("systemctl") if "is-active" not in call]
    assert calls == ["systemctl stop a.service b.service", "systemctl start b.service a.service"]


# A node with labels and pods in files. The DaemonSet's pods leave when a label says that it is paused.
KUBECTL = """\
case "$3 $4" in
'get node') cat {folder}/node;;
'get pods') cat {folder}/pods;;
'label node')
  for word in "$@"; do case "$word" in nvidia.com/*)
    sed -i "s|\\"${word%=*}\\": \\"[a-z-]*\\"|\\"${word%=*}\\": \\"${word#*=}\\"|" {folder}/node;; esac; done
  case "$*" in *=paused*) [ -e {folder}/stuck ] || echo '{"items": []}' >{folder}/pods;; esac;;
esac
"""
DEPLOY = "nvidia.com/gpu.deploy."


@pytest.fixture
def kubernetes(host: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The host as a node of Kubernetes with NVIDIA's device plugin; feature discovery is turned off."""
    (host / "kubelet.conf").touch()
    monkeypatch.setattr(node_guard, "KUBELET", host / "kubelet.conf")
    monkeypatch.setattr(node_guard, "node_name", lambda: "dgx01")
    monkeypatch.setattr(gpu_operator, "POLL_S", 0)
    set_labels(host, "true")
    pod = {
        "metadata": {
            "namespace": "gpu-operator",
            "name": "plugin-1",
            "ownerReferences": [{"kind": "DaemonSet"}],
        },
        "spec": {"containers": [], "nodeSelector": {f"{DEPLOY}device-plugin": "true"}},
    }
    (host / "pods").write_text(json.dumps({"items": [pod]}))
    programs.add("kubectl", KUBECTL.replace("{folder}", str(host)))
    return host


def set_labels(host: Path, plugin: str) -> None:
    labels = {f"{DEPLOY}device-plugin": plugin, f"{DEPLOY}gpu-feature-discovery": "false"}
    (host / "node").write_text(json.dumps({"metadata": {"labels": labels}, "spec": {}, "status": {}}))


def labels_set(programs: Programs) -> list[str]:
    return [line.partition("--overwrite ")[2] for line in programs.called("kubectl") if " label " in line]


def test_device_plugin_of_kubernetes_is_paused_while_instances_change(
    kubernetes: Path, run: Run, programs: Programs
) -> None:
    (kubernetes / "apps").write_text("")
    assert run(module, check=True, **arguments())["gpus"] == ["0"]
    assert labels_set(programs) == []
    assert run(module, **arguments(refresh=[]))["changed"]
    assert labels_set(programs) == [
        f"{DEPLOY}device-plugin=paused-for-mig-change",
        f"{DEPLOY}device-plugin=true",
    ]
    calls = [line for line in programs.called() if " label " in line or "-dci" in line or "-cgi" in line]
    assert [("label" in line) for line in calls] == [True, False, False, True]


def test_device_plugin_starts_again_after_a_failure(kubernetes: Path, run: Run, programs: Programs) -> None:
    (kubernetes / "apps").write_text("GPU-aaaa, 4711, python3\n")
    assert "processes use them: 4711 python3" in run(module, **arguments())["msg"]
    assert labels_set(programs)[-1] == f"{DEPLOY}device-plugin=true"


def test_instances_stay_if_the_device_plugin_does_not_leave(
    kubernetes: Path, run: Run, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kubernetes / "stuck").touch()
    monkeypatch.setattr(gpu_operator, "PAUSE_S", 0)
    assert "did not leave dgx01 within 0 s: gpu-operator/plugin-1." in run(module, **arguments())["msg"]
    assert not [line for line in programs.called("nvidia-smi") if "-dci" in line]
    assert labels_set(programs)[-1] == f"{DEPLOY}device-plugin=true"


def test_device_plugin_that_a_killed_run_left_paused_starts_again(
    kubernetes: Path, run: Run, programs: Programs
) -> None:
    (kubernetes / "instances").write_text(INSTANCES)
    (kubernetes / "compute").write_text((kubernetes / "made-compute").read_text())
    set_labels(kubernetes, gpu_operator.PAUSED)
    assert not run(module, ask=True, **arguments())["changed"]
    checked = run(module, check=True, **arguments())
    assert checked["changed"] and labels_set(programs) == []
    assert run(module, **arguments())["diff"] == checked["diff"]
    assert labels_set(programs) == [f"{DEPLOY}device-plugin=true"]
    assert not run(module, **arguments())["changed"]


def test_check_mode_reports_the_layout_before_a_driver_exists(host: Path, run: Run) -> None:
    (host / "programs" / "nvidia-smi").unlink()
    assert run(module, check=True, **arguments())["gpus"] == ["0"]
    assert not run(module, check=True, **arguments(layout={}))["changed"]
    assert "Install the driver first" in run(module, **arguments())["msg"]


@pytest.mark.parametrize("ask", [True, False])
def test_instances_stay_while_work_runs_on_the_node(
    host: Path, run: Run, programs: Programs, monkeypatch: pytest.MonkeyPatch, ask: bool
) -> None:
    monkeypatch.setattr(workloads, "processes", lambda *_: ["process python3 (4711) of ada"])
    reported = run(module, **arguments(), ask=ask)["msg"]
    assert reported.startswith("GPUs 0 get other MIG instances, and ")
    assert "process python3 (4711) of ada" in reported and reported.endswith("Nothing was changed.")
    assert not [call for call in programs.called("nvidia-smi") if "-dci" in call]


def test_profile_that_the_driver_lacks_is_refused_before_mig_mode(
    host: Path, run: Run, programs: Programs
) -> None:
    module = load("mig")
    (host / "mode").write_text("Disabled\n")
    for check in (True, False):
        refused = run(module, check=check, **arguments(layout={"0": {"4g.40gb": 1}}))
        assert refused["failed"] and "no profile 4g.40gb" in refused["msg"]
    assert not [line for line in programs.called("nvidia-smi") if "-mig" in line.split()]
    assert (host / "mode").read_text() == "Disabled\n"


def test_gpu_that_does_not_exist_is_refused_in_check_mode(host: Path, run: Run) -> None:
    refused = run(load("mig"), check=True, **arguments(layout={"3": {"3g.40gb": 2}}))
    assert refused["failed"] and "There is no GPU 3: the driver finds 2." in refused["msg"]


def test_boot_program_is_the_same_file() -> None:
    role = PLUGINS.parent / "roles" / "mig" / "tasks" / "configure.yml"
    assert "shared: mig.py, mode" in role.read_text()
    # A host does not have the collection.
    text = (PLUGINS / "module_utils" / "mig.py").read_text()
    assert "import ansible" not in text and "from ansible" not in text


def test_a_corrupt_inforom_does_not_keep_gpus_from_being_read(host: Path, programs: Programs) -> None:
    program = programs.folder / "nvidia-smi"
    program.write_text(
        f"{program.read_text().rstrip()}\necho 'WARNING: infoROM is corrupted at gpu 0000:3B:00.0'; exit 14\n"
    )
    assert [gpu["index"] for gpu in mig.gpus()] == ["0", "1"]
    assert "1g.10gb+me" in mig.profiles("0")


def test_profiles_with_media_extensions_are_read_in_all_tables(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {
        "-lgip": "|   0  MIG 1g.12gb+me.all  22     1/1        10.75      No     16     7     0   |",
        "-lgi": "|   0  MIG 1g.12gb+me.all  22        7          0:1     |",
        "-lci": "|   0      7       MIG 1g.12gb+me.all   0         0          0:1     |",
    }
    monkeypatch.setattr(mig, "smi", lambda *words, **_: tables[words[-1]])
    assert mig.profiles("0") == {"1g.12gb+me.all": 22}
    assert mig.instances("0") == [{"profile": "1g.12gb+me.all", "gi": 7, "ci": 0, "start": 0}]
