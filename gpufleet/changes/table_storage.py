"""The effects of the fields of storage."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.changes.change import NO_ONE, Approval, FieldChange, in_place, nothing
from gpufleet.changes.observe import Effect

_S = "cloud[].storage[]"
_NEW_ONE = "all users of the storage: a new, empty one replaces it"
_GONE = "all users of the storage: it is deleted with its data"
# FSx for Lustre user guide, "Managing storage capacity": clients retry until it is available again.
_WAIT = "jobs that read and write wait, for a few minutes at most"
# The same, "Managing provisioned throughput capacity": file servers are switched, for an hour at most.
_SCALES = "jobs that read and write wait, for up to an hour; the next change of it takes six hours"
_LOST = "all users of the storage: the data is not copied"


def _loses(how: str, affects: str = _NEW_ONE) -> FieldChange:
    return FieldChange(how, Effect.REPLACEMENT, affects, Approval.DATA)


STORAGE: Mapping[str, tuple[FieldChange, ...]] = {
    _S: (FieldChange("add an entry", Effect.IN_PLACE, NO_ONE), _loses("remove an entry", _GONE)),
    f"{_S}.name": (_loses("another name"),),
    f"{_S}.lustre": (_loses("another kind instead", _LOST),),
    f"{_S}.lustre.capacity": (
        FieldChange("more", Effect.IN_PLACE, _WAIT),
        _loses("less"),
    ),
    f"{_S}.lustre.deployment": (_loses("another type"),),
    f"{_S}.lustre.throughput": (
        FieldChange("another tier", Effect.IN_PLACE, _SCALES),
        _loses("another tier with EFA"),
    ),
    f"{_S}.lustre.efa": (_loses("on or off"),),
    f"{_S}.lustre.metadata_iops": (
        FieldChange("more", Effect.IN_PLACE, _WAIT),
        _loses("fewer"),
    ),
    f"{_S}.lustre.import_from": (
        FieldChange(
            "another prefix or bucket",
            Effect.IN_PLACE,
            "jobs that wait for new objects: the link changes; existing files stay",
        ),
        FieldChange("left out", Effect.IN_PLACE, "jobs that wait for new objects; existing files stay"),
    ),
    f"{_S}.lustre.export": in_place("on or off", "readers of the bucket"),
    f"{_S}.lustre.compression": in_place(
        "another one", "no one: it applies to files written after the change"
    ),
    f"{_S}.lustre.backups": in_place("another length", "no one; a shorter period deletes older backups"),
    f"{_S}.lustre.zone": (_loses("another zone"),),
    f"{_S}.lustre.kms_key": (_loses("another key"),),
    f"{_S}.bucket": (_loses("another kind instead", _LOST),),
    f"{_S}.bucket.name": (_loses("another name"),),
    f"{_S}.bucket.versioning": in_place(
        "off", "users who restore overwritten objects: existing versions stay"
    ),
    f"{_S}.bucket.expire_after": in_place(
        "another age", "readers of older objects: a shorter age deletes them within days"
    ),
    f"{_S}.bucket.kms_key": (
        FieldChange("another key", Effect.IN_PLACE, "no one: it applies to objects written after the change"),
        FieldChange(
            "a key of yours instead of the stack's",
            Effect.REPLACEMENT,
            "readers of older objects: the stack's key is deleted after 30 days; copy the objects first",
        ),
    ),
    f"{_S}.mount": nothing(
        "another folder", "no one in the cloud: jobs use the new path after the next mount"
    ),
}
