"""Mutants that survive, each with the reason why that is accepted.

A pattern without a surviving mutant is outdated, and `make mutate` reports it.
"""

from __future__ import annotations

import re

ACCEPTED: dict[str, str] = {
    r"components\.base drop deletion_window_in_days of Key in encryption_key": "30 days is AWS's default too",
    r"components\.bucket entry 'Action' widened to \* in __init__": "it denies, and then denies more",
    r"components\.bucket entry 'Principal' widened to \* in _file_systems_may_use_key": (
        'in a policy of a resource * and {"AWS": "*"} are the same principal; the conditions narrow both'
    ),
    r"components\.capacity_block_offering .*delete_before_replace.*": (
        "an offering is an answer and no resource: deleting it, sooner or later, does nothing"
    ),
    r"components\.node_group drop on_demand_base_capacity of .*": "none is AWS's default too",
    r"stacks\.cloud_site as if `item\.efa` were True in _lustre": (
        "the component uses the group only with EFA"
    ),
    r"stacks\.node_groups drop entry 'placement_group' in group_outputs": "an export for people to read",
}
"""Pattern of a mutant's name without its line (`components.bucket drop ...`) -> reason."""

EQUIVALENT: dict[str, str] = {
    r"gpufleet\.checks\.capacity_blocks value > block\.nodes -> value >= block\.nodes": (
        "an equal number is no finding"
    ),
    r"gpufleet\.checks\.hosts gbps > system\.fabric_gbps -> gbps >= system\.fabric_gbps": (
        "an equal speed is no finding"
    ),
    r"gpufleet\.checks\.instances mine is not None and theirs is not None and "
    r"\(mine\.devices != theirs\.devices\) -> (mine|theirs) is not None and "
    r"mine\.devices != theirs\.devices": (
        "the names are equal: both types have an accelerator, or neither has one"
    ),
    r"gpufleet\.checks\.networks room < pods -> room <= pods": (
        "at most seven subnets of a power of two less five addresses are no multiple of 50"
    ),
    r"gpufleet\.checks\.node_images \(own\.slurm if slurm else own\.eks\) or '' -> "
    r"own\.slurm if slurm else own\.eks": "no release is named None either",
    r"gpufleet\.plan\.autoscaler accelerator and gpu -> gpu": "what is a GPU is an accelerator",
    r"gpufleet\.pricing\.of_plan kubernetes is not None and kubernetes\.access != 'phased' -> "
    r"kubernetes\.access != 'phased'": "a node pool is Karpenter's, and so in a Kubernetes site",
    r"gpufleet\.plan\.gpu_sharing gpu is not None and mig_profile -> gpu is not None": (
        "no GPU has a profile without a name"
    ),
    r"gpufleet\.plan\.rack_kubernetes endpoint or '' -> endpoint": "neither is an address",
    r"gpufleet\.plan\.slurm_servers each\.kind == 'private' -> True": (
        "the private subnet of a zone comes after its public one"
    ),
    r"gpufleet\.plan\.gpu_sharing sharing is not None and sharing\.mps is not None -> sharing is not None": (
        "what is shared without time slices is shared by MPS"
    ),
    r"gpufleet\.policies\.rules\.security\._grants not covering -> False": (
        "a quick look that spares the question who may tag"
    ),
    r"gpufleet\.policies\.rules\.security\._grants service not in self\._tagging -> True": (
        "what is known is computed again"
    ),
    r"gpufleet\.policies\.rules\.security\.no_plain_secrets _MARK\.search\(text\) -> True": (
        "a quick look that spares most texts the long pattern"
    ),
}
"""Pattern of the name of a changed condition without its line -> reason why nothing depends on it."""


def reason(name: str) -> str:
    """Why a mutant may survive; empty without a recorded reason."""
    known = ACCEPTED | EQUIVALENT
    return next((why for pattern, why in known.items() if re.fullmatch(pattern, name)), "")
