"""KMS keys and their aliases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names, tags_to_map
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import Props

_DELETED = {"PendingDeletion", "PendingReplicaDeletion"}
_LONGEST_WINDOW_DAYS = 30


class Key(Handler):
    """aws.kms.Key."""

    pulumi_type = "aws:kms/key:Key"
    force_new = frozenset(
        {"customKeyStoreId", "customerMasterKeySpec", "keyUsage", "multiRegion", "xksKeyId"}
    )
    computed = frozenset({"description", "multiRegion", "policy", "rotationPeriodInDays"})
    defaults: ClassVar[Defaults] = {
        "bypassPolicyLockoutSafetyCheck": False, "customerMasterKeySpec": "SYMMETRIC_DEFAULT",
        "enableKeyRotation": False, "isEnabled": True, "keyUsage": "ENCRYPT_DECRYPT",
    }  # fmt: skip
    documents = frozenset({"policy"})
    _names = Names(rename={"customerMasterKeySpec": "KeySpec"})

    def check(self, inputs: Props) -> list[Problem]:
        """Check that the deletion window is 7 to 30 days."""
        window = inputs.get("deletionWindowInDays")
        if isinstance(window, int) and not 7 <= window <= _LONGEST_WINDOW_DAYS:
            return [Problem("deletionWindowInDays", f"{window} is outside 7 to 30 days")]
        return []

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the key, then set rotation and state."""
        parameters = only(
            inputs, "description", "keyUsage", "customerMasterKeySpec", "policy", "multiRegion",
            "customKeyStoreId",
            "xksKeyId", "bypassPolicyLockoutSafetyCheck",
        )  # fmt: skip
        tags = {"Tags": _tags(inputs["tags"])} if inputs.get("tags") else {}
        rid = str(aws.send("kms", "CreateKey", parameters, self._names, **tags)["KeyMetadata"]["KeyId"])
        with keep_on_failure(rid):
            self._rotate(aws, rid, inputs)
            if inputs.get("isEnabled") is False:
                aws.client("kms").disable_key(KeyId=rid)
        return rid

    @staticmethod
    def _rotate(aws: Aws, rid: str, inputs: Props) -> None:
        kms = aws.client("kms")
        if inputs.get("enableKeyRotation"):
            period = inputs.get("rotationPeriodInDays")
            kms.enable_key_rotation(KeyId=rid, **({"RotationPeriodInDays": int(period)} if period else {}))
        elif kms.get_key_rotation_status(KeyId=rid).get("KeyRotationEnabled"):
            kms.disable_key_rotation(KeyId=rid)

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the key with its policy, rotation and tags; None if it waits for deletion."""
        kms = aws.client("kms")
        key = kms.describe_key(KeyId=rid)["KeyMetadata"]
        if key["KeyState"] in _DELETED:
            return None
        out = self.decode(key, self._names)
        out["isEnabled"] = bool(key["Enabled"])
        out["policy"] = kms.get_key_policy(KeyId=rid, PolicyName="default")["Policy"]
        rotation = kms.get_key_rotation_status(KeyId=rid)
        out["enableKeyRotation"] = bool(rotation.get("KeyRotationEnabled"))
        out["rotationPeriodInDays"] = (
            rotation.get("RotationPeriodInDays") if out["enableKeyRotation"] else None
        )
        out["tags"] = tags_to_map(kms.list_resource_tags(KeyId=rid).get("Tags"))
        out.setdefault("description", "")
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change everything but the kind of key in place."""
        kms = aws.client("kms")
        if "isEnabled" in changed and new.get("isEnabled", True):
            kms.enable_key(KeyId=rid)
        if "description" in changed:
            kms.update_key_description(KeyId=rid, Description=new.get("description") or "")
        if "policy" in changed and new.get("policy"):
            parameters = only(new, "policy", "bypassPolicyLockoutSafetyCheck")
            aws.send("kms", "PutKeyPolicy", parameters, None, KeyId=rid, PolicyName="default")
        if changed & {"enableKeyRotation", "rotationPeriodInDays"}:
            self._rotate(aws, rid, new)
        if "isEnabled" in changed and new.get("isEnabled") is False:
            kms.disable_key(KeyId=rid)
        retag(kms, {"KeyId": rid}, old, new, form=_tags)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Schedule the deletion: AWS deletes no key at once."""
        kms = aws.client("kms")
        if kms.describe_key(KeyId=rid)["KeyMetadata"]["KeyState"] in _DELETED:
            return
        window = int(state.get("deletionWindowInDays") or _LONGEST_WINDOW_DAYS)
        kms.schedule_key_deletion(KeyId=rid, PendingWindowInDays=window)


def _tags(tags: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"TagKey": key, "TagValue": str(value)} for key, value in sorted(tags.items())]


class Alias(Handler):
    """aws.kms.Alias."""

    pulumi_type = "aws:kms/alias:Alias"
    force_new = frozenset({"name", "namePrefix"})
    auto_name = AutoName(prefix="alias/", max_length=256)

    def check(self, inputs: Props) -> list[Problem]:
        """Check that the alias starts with alias/."""
        if not str(inputs.get("name")).startswith("alias/"):
            return [Problem("name", f"{inputs.get('name')!r} must begin with 'alias/'")]
        return []

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the alias."""
        aws.client("kms").create_alias(AliasName=inputs["name"], TargetKeyId=inputs["targetKeyId"])
        return str(inputs["name"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The alias and its key."""
        kms = aws.client("kms")
        for page in kms.get_paginator("list_aliases").paginate():
            for alias in page["Aliases"]:
                if alias["AliasName"] == rid and alias.get("TargetKeyId"):
                    target = str(alias["TargetKeyId"])
                    key_arn = aws.arn("kms", f"key/{target}")
                    # The program may use the key's ARN; both identify the same key.
                    declared = str(state.get("targetKeyId", ""))
                    same = declared == target or declared.endswith(f"key/{target}")
                    return {
                        "name": rid, "arn": alias["AliasArn"], "targetKeyArn": key_arn,
                        "targetKeyId": declared if same else target,
                    }  # fmt: skip
        return None

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change the alias to another key."""
        aws.client("kms").update_alias(AliasName=rid, TargetKeyId=new["targetKeyId"])

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the alias; the key stays."""
        aws.client("kms").delete_alias(AliasName=rid)


HANDLERS = (Key(), Alias())
