"""A stack out of its state."""

from __future__ import annotations

from typing import Any

from gpufleet.policy.wire import SECRET, SIGNATURE
from gpufleet.verdict.before import stack_of_state, unprotected

PROVIDER = "urn:pulumi:prod::gpufleet::pulumi:providers:aws::main"
BUCKET = "urn:pulumi:prod::gpufleet::a:b:C$aws:s3/bucket:Bucket::data::2"


def _state(**bucket: Any) -> dict[str, Any]:
    resources = [
        {
            "urn": PROVIDER,
            "custom": True,
            "type": "pulumi:providers:aws",
            "inputs": {"region": "us-west-2", "secretKey": {SIGNATURE: SECRET, "ciphertext": "xyz"}},
        },
        {
            "urn": BUCKET,
            "custom": True,
            "type": "aws:s3/bucket:Bucket",
            "inputs": {"bucket": "mine", "size": 3.0, "__defaults": []},
            "outputs": {"bucket": "stale", "arn": "arn:x", "size": 3.0},
            "provider": f"{PROVIDER}::id-1",
            "parent": "urn:parent",
            "protect": True,
            "propertyDependencies": {"bucket": ["urn:other"], "tags": None},
            **bucket,
        },
    ]
    return {"version": 3, "deployment": {"resources": resources}}


def test_inputs_override_outputs_and_engine_markers_are_removed() -> None:
    bucket = stack_of_state(_state()).by_urn[BUCKET]
    assert bucket.props == {"bucket": "mine", "arn": "arn:x", "size": 3}
    assert bucket.inputs == {"bucket": "mine", "size": 3}
    assert isinstance(bucket.props["size"], int)


def test_names_relations_and_options_are_those_of_the_state() -> None:
    bucket = stack_of_state(_state(ignoreChanges=["tags"])).by_urn[BUCKET]
    assert bucket.name == "data::2"
    assert bucket.parent == "urn:parent"
    assert bucket.property_dependencies == {"bucket": ("urn:other",)}
    assert bucket.options.protect
    assert bucket.ignores("tags")


def test_provider_has_its_region_and_no_credentials() -> None:
    provider = stack_of_state(_state()).by_urn[BUCKET].provider
    assert provider is not None
    assert dict(provider.props) == {"region": "us-west-2"}


def test_secret_is_left_out_and_marked() -> None:
    secret = {"settings": {"list": [{SIGNATURE: SECRET, "ciphertext": "abc"}]}}
    bucket = stack_of_state(_state(inputs=secret)).by_urn[BUCKET]
    assert bucket.get("settings.list[0]") == "[secret]"
    assert bucket.secrets == {"settings.list[0]"}
    assert bucket.show("settings.list[0]") == "[secret]"
    assert "abc" not in repr(bucket)


def test_resource_pending_deletion_counts_as_deleted() -> None:
    assert BUCKET not in stack_of_state(_state(delete=True)).by_urn


def test_missing_state_is_an_empty_stack() -> None:
    assert len(stack_of_state(None)) == 0
    assert len(stack_of_state({"version": 3, "deployment": {"resources": None}})) == 0


def test_protection_is_removed_only_from_a_copy() -> None:
    state = _state()
    assert not stack_of_state(unprotected(state)).by_urn[BUCKET].options.protect
    assert stack_of_state(state).by_urn[BUCKET].options.protect
