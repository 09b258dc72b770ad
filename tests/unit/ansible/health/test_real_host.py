"""The health check as a whole on what a real host printed: a virtual machine with one GPU, driver 580."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from health import main as program
from health.readings import GPU_FIELDS, ROW_FIELDS

from gpufleet.catalog.nvlinks import active_nvlinks
from tests.captures import H100, H200, find_capture, load_capture, read_capture

DRIVER = "580.159.04"
# nvidia-smi of the capture: what it printed to the same words, and its exit code.
SMI = """#!/bin/sh
case "$1" in
  --query-gpu={gpus}) cat {folder}/{load}query-health.csv ;;
  --query-remapped-rows={rows}) cat {folder}/remapped-rows.csv ;;
  nvlink) [ "$2" = --status ] && cat {folder}/nvlink-s.txt || cat {folder}/nvlink-e.txt ;;
  *) exit 2 ;;
esac
"""


class Host:
    """The files and programs of a capture, below a folder."""

    def __init__(self, folder: Path, name: str, load: str = "") -> None:
        self.root, self.bin = folder / "root", folder / "bin"
        self.bin.mkdir(parents=True)
        for path, text in load_capture(f"{name}/host_files.json").items():
            place = self.root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        boot = self.root / "proc/sys/kernel/random"
        boot.mkdir(parents=True)
        (boot / "boot_id").write_text("7d0c0a8e\n")
        self.config: dict[str, Any] = {
            **{"node": "gpu01", "gpus": 1, "gpu": "H100", "nvswitches": 0, "adapters": 0},
            **{"nvlinks": active_nvlinks(), "driver_version": DRIVER, "disk_paths": []},
            **{"root": str(self.root), "textfile_directory": "/var/lib"},
        }
        captured = find_capture(f"{name}/query-health.csv").parent
        words = {"gpus": ",".join(GPU_FIELDS), "rows": ",".join(ROW_FIELDS), "folder": captured}
        self.program("nvidia-smi", SMI.format(load=load, **words))
        # The host had no chrony, and one finding of it.
        self.program("chronyc", "#!/bin/sh\necho C0A80001,ntp1,3,1.0,0.0,0,0,0,0,0,0,0,64.0,Normal\n")
        self.program("dmesg", f"#!/bin/sh\ncat {captured}/dmesg.log\n")
        (self.root / "var/lib/gpufleet/health").mkdir(parents=True)

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def findings(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
        file = self.root.parent / "health.json"
        file.write_text(json.dumps(self.config))
        monkeypatch.setenv("GPUFLEET_HEALTH_CONFIG", str(file))
        monkeypatch.setenv("GPUFLEET_HEALTH_PATH", f"{self.bin}:/usr/bin:/bin")
        code = program.main(["show"])
        shown = json.loads(capsys.readouterr().out)
        assert code == (0 if shown["healthy"] else 1)
        return [(each["check"], each["action"], each["message"]) for each in shown["findings"]]


@pytest.mark.parametrize(("name", "load"), [(H100, ""), (H100, "load-"), (H200, "")])
def test_a_healthy_gpu_of_a_virtual_machine_is_fit_for_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, load: str
) -> None:
    # It has no NVLinks, of which nvidia-smi prints nothing: no fault of a GPU without a neighbour.
    assert Host(tmp_path, name, load).findings(monkeypatch, capsys) == []


def test_a_dgx_of_which_one_gpu_is_left_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = Host(tmp_path, H100)
    host.config |= {"gpus": 8, "driver_version": "590.48.01"}
    found = host.findings(monkeypatch, capsys)
    assert ("gpu_count", "drain", "1 of 8 GPUs on the PCI bus") in found
    assert ("driver", "drain", "driver 580.159.04 is loaded instead of 590.48.01") in found
    assert ("nvlink", "drain", "its NVLinks are not reported") in found


@pytest.mark.parametrize("name", [H100, H200])
def test_every_field_that_is_asked_is_listed_by_the_real_tool(name: str) -> None:
    listed = set(read_capture(f"{name}/fields.txt").replace(" = ", "\n").split("\n"))
    assert [field for field in GPU_FIELDS if field not in listed] == []
    assert read_capture(f"{name}/query-unknown-field.txt") == (
        'Field "no_such_field" is not a valid field to query.\n\n'
    )
