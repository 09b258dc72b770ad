"""The queue and the handler of notices, in a preview of a fleet that has both."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.policy.report import Report
from tests.previewed import preview_environment

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The sandbox's fleet with `interruptions` in its Kubernetes site and in its Slurm site."""
    text = (ROOT / "stacks/sandbox/fleet.yaml").read_text(encoding="utf-8")
    for scheduler in ("kubernetes", "slurm"):
        line = f"    scheduler: {scheduler}\n"
        assert line in text
        text = text.replace(line, f"{line}    interruptions: {{}}\n", 1)
    path = tmp_path_factory.mktemp("fleet") / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    return preview_environment(ROOT, str(path))


@pytest.mark.xdist_group("emitted")
def test_no_rule_is_broken(report: Report) -> None:
    advice = {"price-catalog-age", "cost-allocation-tags"}
    assert [f"{each.rule}: {each.message}" for each in report.found if each.rule not in advice] == []


@pytest.mark.xdist_group("emitted")
def test_both_sites_have_their_queue_and_kubernetes_its_handler(report: Report) -> None:
    names = [each.urn.rpartition("::")[2] for each in report.stack if each.type == "aws:sqs/queue:Queue"]
    assert sorted(names) == [
        f"atlas-sandbox-{site}-notices{end}" for site in ("use1", "usw2") for end in ("", "-dead")
    ]
    handlers = [each for each in report.stack if each.urn.endswith("Deployment::atlas-sandbox-use1-notices")]
    assert len(handlers) == 1
