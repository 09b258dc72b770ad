"""Objects of moto that pickle rejects, and that a saved state has."""

from __future__ import annotations

import io
import pickle
import weakref

from gpufleet.lab.aws.server.snapshot import _Pickler


class Held:
    """Something that a weak dictionary refers to, as moto's functions of Lambda by their ARN."""


def test_weak_dictionary_refers_to_the_restored_objects() -> None:
    held = {"arn": Held()}
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump((held, weakref.WeakValueDictionary(held)))
    restored, weak = pickle.loads(buffer.getvalue())
    assert weak["arn"] is restored["arn"]
    assert dict(weak) == restored
