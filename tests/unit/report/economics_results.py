"""Results of calculators for tests of their pages: written by the commands, from files of docs/examples."""

from __future__ import annotations

from pathlib import Path

from gpufleet.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "docs" / "examples"
PROD = str(ROOT / "stacks" / "prod" / "fleet.yaml")
COMMANDS: dict[str, tuple[str, ...]] = {
    "cost": ("cost", PROD, "--compare", str(ROOT / "stacks" / "dev" / "fleet.yaml")),
    "tco": ("tco", "--gpus", "1024", "--system", "dgx-h100", "--years", "5", "--utilization", "70%"),
    "spot": (
        "spot", "simulate", "--instance-type", "p5.48xlarge", "--region", "us-west-2", "--work", "72 h",
        "--nodes", "8", "--checkpoint", "60s", "--mtbf", "48 h", "--deadline", "90 h", "--runs", "500",
    ),
    "usage": ("usage", PROD, "--sacct", str(EXAMPLES / "usage" / "sacct.txt"), "--site", "dc1"),
    "training": ("advise", str(EXAMPLES / "jobs" / "pretrain-20b.yaml"), "--env", PROD, "--runs", "200"),
    "serving": ("advise", str(EXAMPLES / "jobs" / "captions.yaml"), "--env", PROD),
    "edge": ("advise", str(EXAMPLES / "jobs" / "edge.yaml"), "--env", PROD),
}  # fmt: skip


def write_page(name: str, folder: Path) -> Path:
    """Run a command with `--html` and return its page."""
    path = folder / f"{name}.html"
    assert main([*COMMANDS[name], "--html", str(path), "--quiet"]) == 0
    return path
