"""`gpufleet size`, `spot` and `tco`: the stable JSON, text, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli.main import main
from gpufleet.economics.training import CHECKPOINT_BYTES_PER_PARAMETER
from tests.unit.economics.configs import CONFIGS

TCO = ("tco", "--gpus", "1024", "--system", "dgx-h100", "--years", "5", "--utilization", "70%")
SPOT = ("spot", "compare", "--instance-type", "p5.48xlarge", "--region", "us-west-2")


@pytest.fixture(autouse=True)
def outside_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["Llama-3-70B"]))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(list(words)) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(run(capsys, *words, "--json"))


def test_interval_gives_seconds_and_waste(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "spot", "interval", "--checkpoint", "60s", "--mtbf", "3.093h")
    assert round(found["interval_s"]) == 1156
    assert found["waste_fraction"] == pytest.approx(0.1038, abs=1e-4)


def test_network_gives_time_and_algorithm_bandwidth(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("size", "network", "--ranks", "16", "--bytes", "2 GiB", "--busbw", "78.33 GB/s")
    found = run_json(capsys, *words)
    assert found["time_s"] == pytest.approx(1.875 * 2**31 / 78.33e9)
    assert found["algbw_GBps"] == pytest.approx(78.33 / 1.875)


def test_storage_gives_throughput_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "size", "storage", "--checkpoint", "912 GB", "--within", "60s")
    assert found["throughput_GBps"] == pytest.approx(15.2)
    assert {item["deployment"] for item in found["options"]} >= {"PERSISTENT_2", "SCRATCH_2"}
    assert all(item["source"] for item in found["options"] if item["monthly"] is not None)


def test_training_gives_memory_by_part_time_and_cost(capsys: pytest.CaptureFixture[str], config: str) -> None:
    words = ("size", "train", "--config", config, "--tokens", "15T", "--gpus", "1024", "--gpu-type", "H100")
    found = run_json(capsys, *words)
    memory = found["memory_per_gpu_GiB"]
    assert memory.pop("total") == pytest.approx(sum(memory.values()))
    assert memory.keys() == {"parameters", "gradients", "optimizer", "activations", "logits", "reserve"}
    assert found["fits"] is True
    assert found["time_h"] > found["compute_h"] > 0
    assert found["cost"]["amount"] == pytest.approx(6.88 * found["gpu_hours"])
    assert {item["name"] for item in found["assumptions"]} == {
        "MFU", "peak", "GPU-hours per failure", "storage", "reserve",
    }  # fmt: skip
    given = run_json(
        capsys, *words, "--mfu", "0.4", "--peak-tflops", "989", "--gpu-hours-per-failure", "50677",
        "--storage", "20GB/s", "--reserve", "4GiB", "--price", "3 USD/h",
    )  # fmt: skip
    assert given["assumptions"] == []
    assert given["time_h"] == found["time_h"]
    assert given["cost"]["amount"] == pytest.approx(3 * found["gpu_hours"])


def test_cost_of_a_system_is_unknown_and_never_0(capsys: pytest.CaptureFixture[str], config: str) -> None:
    words = ("size", "train", "--config", config, "--tokens", "1T", "--gpus", "512", "--gpu-type", "dgx-h100")
    cost = run_json(capsys, *words)["cost"]
    assert cost["amount"] is None
    assert cost["unknown"] == ["dgx-h100 is not sold by the hour"]
    assert "unknown: dgx-h100 is not sold by the hour" in run(capsys, *words)


def test_inference_gives_memory_and_sequences(capsys: pytest.CaptureFixture[str], config: str) -> None:
    words = ("size", "inference", "--config", config, "--gpu-type", "H100", "--context", "8192")
    one = run_json(capsys, *words)
    assert one["fits"] is False
    assert one["most_sequences"] == 0
    four = run_json(capsys, *words, "--tensor", "4", "--batch", "8")
    assert four["fits"] is True
    assert four["most_sequences"] > 8
    assert four["memory_per_gpu_GiB"]["weights"] == pytest.approx(one["memory_per_gpu_GiB"]["weights"] / 4)


def test_spot_gives_prices_and_saving(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, *SPOT)
    assert (found["on_demand"], found["spot"]) == (55.04, 12.9756)
    assert found["saving_fraction"] == pytest.approx(0.764, abs=5e-4)
    missing = run_json(capsys, "spot", "compare", "--instance-type", "g7.2xlarge", "--region", "us-east-1")
    assert (missing["offered"], missing["spot"], missing["saving_fraction"]) == (False, None, None)


@pytest.mark.parametrize(
    "words",
    [
        ("spot", "interval", "--checkpoint", "60s", "--mtbf", "3.093h"),
        SPOT,
        ("size", "network", "--ranks", "16", "--bytes", "2 GiB", "--busbw", "78.33 GB/s"),
        ("size", "storage", "--checkpoint", "912 GB", "--within", "60s"),
        TCO,
    ],
)
@pytest.mark.parametrize("width", ["60", "80"])
def test_text_fits_the_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    lines = run(capsys, *words).splitlines()
    assert lines
    assert [line for line in lines if len(line) > int(width)] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("spot", "interval", "--checkpoint", "60", "--mtbf", "x"), "--checkpoint: '60' is not a duration"),
        (("spot", "interval", "--checkpoint", "60s", "--mtbf", "x"), "--mtbf: 'x' is not a duration"),
        (("spot", "interval", "--checkpoint", "2h", "--mtbf", "1h"), "would compute nothing"),
        ((*SPOT, "--mtbf", "1h"), "belong"),
        (("size", "network", "--ranks", "1", "--bytes", "1 GB", "--busbw", "1 GB/s"), "at least two"),
        (("size", "network", "--ranks", "2", "--bytes", "-1 GB", "--busbw", "1 GB/s"), "it is negative"),
        (("size", "storage", "--checkpoint", "1 GB", "--within", "0 s"), "it is zero"),
        ((*TCO[:-1], "120%"), "'120%' is not a share from 0 to 1"),
        ((*TCO, "--acquisition", "240000 EUR"), "'EUR' is not USD"),
        ((*TCO, "--pue", "0.5"), "PUE is 0.5"),
        ((*TCO, "--system", "dgx-a100"), "no price of dgx-a100"),
        ((*TCO, "--system", "dgx-x"), "unknown system 'dgx-x'"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_without_a_result(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    text = run(capsys, *words, code=2)
    assert says in " ".join(text.split())
    assert capsys.readouterr().out == ""


def test_unknown_model_and_gpu_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, config: str
) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"model_type": "mamba"}')
    rest = ("--context", "1024")
    text = run(capsys, "size", "inference", "--config", str(other), "--gpu-type", "H100", *rest, code=2)
    assert "'mamba' is not supported" in text
    text = run(capsys, "size", "inference", "--config", config, "--gpu-type", "H1000", *rest, code=2)
    assert "unknown GPU, instance type or system 'H1000'; did you mean 'H100'?" in " ".join(text.split())
    words = ("--tokens", "1T", "--gpus", "8", "--gpu-type", "L4")
    text = run(capsys, "size", "train", "--config", config, *words, code=2)
    assert "the peak throughput of L4 is not known" in text


JOB = """job: pretrain
training:
  gpus: 1024
  gpu_types: [H100]
  config: config.json
  tokens: 15T
  checkpoint: 60 s
  restart: 20 min
"""
SERVICE = """job: answers
serving:
  load: { low: 1, usual: 2, peak: 3 }
  latency: 5 s
  utilization: 60%
  warm_up: 5 min
  models:
    - { name: small, gpu_memory: 10 GB, measured: { L4: { requests_per_s: 2, latency: 1 s } } }
    - name: large
      gpus: 4
      gpu_memory: 70 GB
      config: config.json
      context: 8192
      batch: 8
      measured: { H100: { requests_per_s: 2, latency: 1 s } }
"""


def job_file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.usefixtures("config")
def test_job_file_gives_what_options_leave_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job, config = job_file(tmp_path, JOB), str(tmp_path / "config.json")
    sized = run_json(capsys, "size", "train", "--job", job)
    words = ("--config", config, "--tokens", "15T", "--gpus", "1024", "--gpu-type", "H100")
    assert sized == run_json(capsys, "size", "train", *words, "--restart", "20 min")
    assert run_json(capsys, "size", "train", "--job", job, "--gpus", "512")["gpus"] == 512
    parameters = sized["model"]["parameters"]
    stored = run_json(capsys, "size", "storage", "--job", job)
    assert stored["throughput_GBps"] == pytest.approx(CHECKPOINT_BYTES_PER_PARAMETER * parameters / 60e9)
    moved = run_json(capsys, "size", "network", "--job", job, "--busbw", "300 GB/s")
    assert moved["time_s"] == pytest.approx(2 * 2 * parameters * 1023 / 1024 / 300e9)


@pytest.mark.usefixtures("config")
def test_inference_takes_a_model_of_a_service(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job, config = job_file(tmp_path, SERVICE), str(tmp_path / "config.json")
    sized = run_json(capsys, "size", "inference", "--job", job)
    words = ("--config", config, "--gpu-type", "H100", "--context", "8192", "--batch", "8", "--tensor", "4")
    assert sized == run_json(capsys, "size", "inference", *words)
    reported = run(capsys, "size", "inference", "--job", job, "--model", "small", code=2)
    assert "--model: small is not one model with a `config`" in reported
    assert "name one of: large" in reported


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (("train",), "--config is not given"),
        (("inference", "--config", "config.json"), "--gpu-type is not given"),
        (("storage", "--within", "60s"), "--checkpoint is not given"),
        (("storage", "--checkpoint", "9 GB"), "--within is not given"),
        (("network", "--busbw", "1 GB/s"), "--ranks is not given"),
    ],
)
@pytest.mark.usefixtures("config")
def test_missing_options_name_the_job_file(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], missing: str
) -> None:
    reported = run(capsys, "size", *words, code=2)
    assert missing in reported
    assert "or a job file with --job" in reported
