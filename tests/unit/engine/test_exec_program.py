"""Source positions of resources: those of the SDK, without the text of the lines."""

from __future__ import annotations

import traceback

from pulumi.runtime import resource

from gpufleet.engine.embedded import exec_program


def test_frames_and_positions_equal_those_of_the_sdk() -> None:
    own, sdk = exec_program._Frames.extract_stack(), list(traceback.extract_stack())
    # Both are called in the same line.
    assert [(each.filename, each.lineno, each.name) for each in own] == [
        (each.filename, each.lineno, each.name) for each in sdk
    ]
    frames = [*sdk, traceback.FrameSummary("<string>", 3, "f"), traceback.FrameSummary("", 3, "f")]
    assert [exec_program._position(each) for each in frames] == [
        resource._get_source_position_for_frame(each) for each in frames
    ]
