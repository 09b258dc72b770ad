"""MIG profiles: every profile has a source, and layouts must fit the hardware."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from gpufleet.catalog import load_catalog
from gpufleet.catalog.mig import COMPUTE_SLICES, MigGpu, mig_gpus, mig_of


def gpu(name: str, memory_gb: int) -> MigGpu:
    return next(item for item in mig_of(name) if item.memory_gb == memory_gb)


H100 = gpu("H100", 80)


def test_every_system_of_the_catalog_has_a_gpu_with_mig():
    assert {system.gpu for system in load_catalog().systems.values()} <= {item.gpu for item in mig_gpus()}
    assert mig_of("L4") == ()


@pytest.mark.parametrize("item", mig_gpus(), ids=lambda item: f"{item.gpu}-{item.memory_gb}")
def test_profile_matches_its_name_and_fits_as_often_as_documented(item: MigGpu):
    assert item.source
    assert len({profile.id for profile in item.profiles}) == len(item.profiles)
    for profile in item.profiles:
        assert profile.name.startswith(f"{profile.compute_slices}g.{profile.memory_gib}gb")
        assert max(profile.starts) + profile.memory_slices <= 8
        assert item.holds({profile.name: profile.most})
        assert not item.holds({profile.name: profile.most + 1})


@pytest.mark.parametrize(
    ("layout", "fits"),
    [
        ({"1g.10gb": 7}, True),
        ({"3g.40gb": 2}, True),
        ({"4g.40gb": 1, "3g.40gb": 1}, True),
        ({"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}, True),
        ({"3g.40gb": 1, "1g.10gb": 4}, True),
        ({"1g.10gb+me": 1, "1g.10gb": 6}, True),
        # All eight memory slices are taken.
        ({"3g.40gb": 2, "1g.10gb": 1}, False),
        # Seven compute slices and eight memory slices in all, and one place too few.
        ({"2g.20gb": 3, "1g.20gb": 1}, True),
        ({"2g.20gb": 3, "1g.10gb": 2}, False),
        ({"4g.40gb": 1, "2g.20gb": 2}, False),
        ({"7g.80gb": 1, "1g.10gb": 1}, False),
        ({"1g.12gb": 1}, False),
    ],
)
def test_layouts_of_an_h100_are_judged_by_slices_and_memory(layout: dict[str, int], fits: bool):
    assert H100.holds(layout) is fits


def test_layout_with_too_many_slices_is_refused():
    names = [profile.name for profile in H100.profiles]
    slices = {profile.name: (profile.compute_slices, profile.memory_slices) for profile in H100.profiles}
    fitting = 0
    for size in range(1, 8):
        for chosen in combinations_with_replacement(names, size):
            if H100.holds({name: chosen.count(name) for name in chosen}):
                fitting += 1
                assert sum(slices[name][0] for name in chosen) <= COMPUTE_SLICES
                assert sum(slices[name][1] for name in chosen) <= 8
    assert fitting > 20


def test_a100_has_the_profiles_of_its_memory_size_only():
    assert gpu("A100", 40).holds({"1g.5gb": 7}) and not gpu("A100", 80).holds({"1g.5gb": 7})
    assert gpu("A100", 80).holds({"1g.10gb": 7}) and not gpu("A100", 40).holds({"1g.10gb": 7})
    assert not any(item.holds({"1g.5gb": 1, "3g.40gb": 1}) for item in mig_of("A100"))
