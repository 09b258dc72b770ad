"""Declared inputs of a resource, and unknown values."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.pricing.of_stack.inputs import declared
from gpufleet.resources.resource import UNKNOWN, Resource


@pytest.mark.parametrize(
    ("inputs", "outputs", "found"),
    [
        ({"size": 4}, {"size": 5}, 4),
        ({"size": UNKNOWN}, {"size": UNKNOWN}, UNKNOWN),
        ({}, {"size": 5}, 5),
        ({}, {"size": UNKNOWN}, None),
        ({}, {}, None),
        (None, {"size": UNKNOWN}, UNKNOWN),
    ],
)
def test_inputs_override_outputs_and_an_unknown_output_is_unset(
    inputs: dict[str, Any] | None, outputs: dict[str, Any], found: Any
) -> None:
    disk = Resource("aws:ebs/volume:Volume", "disk", "urn", outputs, inputs)
    assert declared(disk, "size") is found
