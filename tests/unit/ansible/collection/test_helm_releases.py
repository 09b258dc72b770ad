"""Releases: differences are changed, pending ones recovered, and check mode reports the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
HELM = """\
case "$*" in
  "list --help") echo "{flags}";;
  list*) cat {folder}/list || exit 1;;
  "get values"*) cat {folder}/values;;
  history*) cat {folder}/history;;
  upgrade*) cat >{folder}/given
    [ ! -f {folder}/lost ] || {{ cat {folder}/lost >&2; rm {folder}/lost; exit 1; }}
    [ ! -f {folder}/broken ] || {{ cat {folder}/broken >&2; exit 1; }};;
esac
exit 0
"""
KUEUE = {
    "name": "kueue",
    "namespace": "kueue-system",
    "chart": "oci://registry.example/charts/kueue",
    "version": "0.19.2",
    "values": {"a": 1},
}
THERE = {"name": "kueue", "namespace": "kueue-system", "chart": "kueue-0.19.2", "status": "deployed"}


class Cluster:
    """Prepared output of helm, and its changing calls."""

    def __init__(self, folder: Path, programs: Programs) -> None:
        self.folder, self.programs = folder, programs
        folder.mkdir()
        self.helm("-A, --all-namespaces")
        self.shows([THERE], {"a": 1})

    def helm(self, flags: str) -> None:
        self.programs.add("helm", HELM.format(folder=self.folder, flags=flags))

    def shows(self, releases: list[dict[str, Any]], values: dict[str, Any] | None = None) -> None:
        (self.folder / "list").write_text(json.dumps(releases))
        (self.folder / "values").write_text(json.dumps(values))

    def history(self, *states: str) -> None:
        found = [{"revision": place, "status": state} for place, state in enumerate(states, start=1)]
        (self.folder / "history").write_text(json.dumps(found))

    def asked(self) -> list[str]:
        """Commands that change something."""
        verbs = ("helm upgrade", "helm uninstall", "helm rollback")
        return [line for line in self.programs.called() if line.startswith(verbs)]


@pytest.fixture
def cluster(programs: Programs, tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "cluster", programs)


@pytest.fixture
def module() -> ModuleType:
    return load("helm_releases")


def test_matching_release_is_unchanged(run: Run, module: ModuleType, cluster: Cluster) -> None:
    assert run(module, releases=[KUEUE])["changed"] is False
    assert cluster.asked() == []


@pytest.mark.parametrize(
    ("there", "values", "wish"),
    [
        ([], None, {}),
        ([THERE | {"chart": "kueue-0.19.1"}], {"a": 1}, {}),
        ([THERE], {"a": 2}, {}),
        ([THERE], None, {}),
        ([THERE | {"status": "failed"}], {"a": 1}, {}),
        ([THERE | {"namespace": "elsewhere"}], {"a": 1}, {}),
    ],
)
def test_differing_release_is_upgraded_and_check_mode_reports_it(
    run: Run, module: ModuleType, cluster: Cluster, there, values, wish
) -> None:
    cluster.shows(there, values)
    checked = run(module, check=True, releases=[KUEUE | wish])
    assert checked["changed_releases"] == ["kueue-system/kueue"] and cluster.asked() == []
    done = run(module, releases=[KUEUE | wish])
    assert done["changed_releases"] == checked["changed_releases"] and done["diff"] == checked["diff"]
    (command,) = cluster.asked()
    assert "--install kueue oci://registry.example/charts/kueue --namespace kueue-system" in command
    assert "--version 0.19.2" in command and "--reset-values" in command and "--wait" in command


def test_values_reach_helm_only_over_standard_input(run: Run, module: ModuleType, cluster: Cluster) -> None:
    run(module, releases=[KUEUE | {"values": {"token": "hidden-in-no-argument"}}])
    assert json.loads((cluster.folder / "given").read_text()) == {"token": "hidden-in-no-argument"}
    assert not any("hidden" in line for line in cluster.programs.called())


def test_charts_of_a_repository_and_a_mirror_are_compared_by_version(
    run: Run, module: ModuleType, cluster: Cluster
) -> None:
    cluster.shows([THERE | {"name": "op", "chart": "gpu-operator-v26.7.0"}], {})
    wish = KUEUE | {"name": "op", "chart": "gpu-operator", "version": "v26.7.0", "values": {}}
    assert run(module, releases=[wish | {"repository": "https://charts.example"}])["changed"] is False
    mirror = wish | {"chart": "http://mirror/charts/gpu-operator-v26.7.0.tgz"}
    assert run(module, releases=[mirror])["changed"] is False
    run(module, releases=[wish | {"repository": "https://charts.example", "values": {"b": 1}}])
    assert "--repo https://charts.example" in cluster.asked()[0]


def test_absent_release_is_uninstalled_once(run: Run, module: ModuleType, cluster: Cluster) -> None:
    gone = {"name": "kueue", "namespace": "kueue-system", "absent": True}
    assert run(module, check=True, releases=[gone])["changed"] is True
    assert run(module, releases=[gone])["changed"] is True
    assert cluster.asked() == ["helm uninstall kueue --namespace kueue-system"]
    cluster.shows([])
    assert run(module, releases=[gone])["changed"] is False


def test_killed_upgrade_is_rolled_back_before_the_next(
    run: Run, module: ModuleType, cluster: Cluster
) -> None:
    cluster.shows([THERE | {"status": "pending-upgrade"}], {"a": 1})
    cluster.history("superseded", "deployed", "pending-upgrade")
    assert run(module, releases=[KUEUE])["changed"] is True
    first, second = cluster.asked()
    assert first == "helm rollback kueue 2 --namespace kueue-system"
    assert second.startswith("helm upgrade --install kueue")


def test_killed_installation_is_removed_before_the_next(
    run: Run, module: ModuleType, cluster: Cluster
) -> None:
    cluster.shows([THERE | {"status": "pending-install"}], {"a": 1})
    cluster.history("pending-install")
    run(module, releases=[KUEUE])
    first, second = cluster.asked()
    assert first == "helm uninstall kueue --namespace kueue-system --no-hooks"
    assert second.startswith("helm upgrade --install kueue")


def test_pending_flag_is_passed_to_helm_3_and_not_to_helm_4(
    run: Run, module: ModuleType, cluster: Cluster
) -> None:
    run(module, releases=[KUEUE])
    assert not any(line.split()[-1] == "--all" for line in cluster.programs.called("helm list --all-n"))
    cluster.helm("-a, --all  show all releases")
    run(module, releases=[KUEUE])
    assert cluster.programs.called("helm list --all-n")[-1].endswith(" --all")


def test_missing_cluster_is_a_difference_in_check_mode_and_a_failure_otherwise(
    run: Run, module: ModuleType, cluster: Cluster
) -> None:
    cluster.programs.add(
        "helm", "echo 'Error: Kubernetes cluster unreachable: connection refused' >&2; exit 1"
    )
    assert run(module, check=True, releases=[KUEUE])["changed"] is True
    failed = run(module, releases=[KUEUE])
    assert failed["failed"] and "connection refused" in failed["msg"]


def test_release_without_a_version_is_refused(run: Run, module: ModuleType, cluster: Cluster) -> None:
    failed = run(module, releases=[{**KUEUE, "version": ""}])
    assert "helm takes the newest" in failed["msg"] and cluster.programs.called() == []
    twice = run(module, releases=[KUEUE, KUEUE])
    assert "there twice" in twice["msg"]


def test_helm_failure_is_reported_with_its_output(run: Run, module: ModuleType, cluster: Cluster) -> None:
    cluster.shows([])
    (cluster.folder / "broken").write_text("Error: chart not found")
    failed = run(module, releases=[KUEUE])
    assert "Installing kueue-system/kueue failed: Error: chart not found" in failed["msg"]


def test_release_whose_connection_is_lost_is_changed_again_from_its_state(
    run: Run, module: ModuleType, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0)
    # In the order of an installation that was cut off: helm lists it as pending.
    cluster.shows([THERE | {"status": "pending-install"}], {"a": 1})
    cluster.history("pending-install")
    (cluster.folder / "lost").write_text('Error: Patch "https://10.90.0.10:6443/apis/rbac": unexpected EOF')
    assert run(module, releases=[KUEUE])["changed"] is True
    assert [line.split()[1] for line in cluster.asked()] == ["uninstall", "upgrade", "uninstall", "upgrade"]


def test_release_whose_connection_is_lost_each_time_fails_with_the_reason(
    run: Run, module: ModuleType, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0)
    cluster.shows([])
    (cluster.folder / "broken").write_text("Error: read: connection reset by peer")
    assert "connection reset by peer" in run(module, releases=[KUEUE])["msg"]
    assert len(cluster.asked()) == module.TRIES
