"""A corrupt InfoROM in a rack shows as the real tool shows it."""

from __future__ import annotations

from pathlib import Path

from tests.captures import read_capture
from tests.unit.stand_ins.test_dcgm_and_xml import described, run


def test_a_corrupt_inforom_is_warned_of_below_the_rows_with_an_exit_code_of_its_own(tmp_path: Path) -> None:
    hardware = described()
    hardware["gpus"][2]["inforom_corrupt"] = True
    code, text = run(tmp_path, hardware, "nvidia_smi", "--query-gpu=index,name", "--format=csv,noheader")
    *rows, warning = text.splitlines()
    genuine = read_capture("nvidia-smi/table_v100_inforom-corrupt_460.txt").splitlines()[-1]
    assert (code, len(rows)) == (14, 8)
    assert warning.rpartition(" ")[0] == genuine.rpartition(" ")[0]
