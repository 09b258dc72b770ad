"""Data deleted by `gpufleet sandbox reset`."""

from __future__ import annotations

from gpufleet.lab.aws import daemon


def test_reset_deletes_rendered_manifests(rendering, sandbox):
    rendering.create("kubernetes:core/v1:Namespace", "a", {"metadata": {"name": "a"}})
    assert (sandbox / "manifests" / "test" / "namespace_a.yaml").is_file()
    daemon.reset(sandbox)
    assert not (sandbox / "manifests").exists()
    made = rendering.create("kubernetes:core/v1:Namespace", "a", {"metadata": {"name": "a"}})
    assert made.id == "a"
