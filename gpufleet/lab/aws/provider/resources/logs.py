"""CloudWatch log groups."""

from __future__ import annotations

from typing import ClassVar

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import Props

_RETENTION_DAYS = frozenset({
    0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288,
    3653,
})  # fmt: skip
"""Values of PutRetentionPolicy; 0 means no expiry."""


class LogGroup(Handler):
    """aws.cloudwatch.LogGroup."""

    pulumi_type = "aws:cloudwatch/logGroup:LogGroup"
    force_new = frozenset({"name", "namePrefix", "logGroupClass"})
    computed = frozenset({"logGroupClass", "deletionProtectionEnabled"})
    defaults: ClassVar[Defaults] = {"retentionInDays": 0, "skipDestroy": False}
    auto_name = AutoName(max_length=512)
    _names = Names(rename={"name": "logGroupName"})

    def check(self, inputs: Props) -> list[Problem]:
        """Check that AWS supports the retention."""
        days = inputs.get("retentionInDays")
        if isinstance(days, int) and days not in _RETENTION_DAYS:
            known = ", ".join(map(str, sorted(_RETENTION_DAYS)))
            return [Problem("retentionInDays", f"{days} is not a period that AWS offers (known: {known})")]
        return []

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the group, then set its retention."""
        parameters = only(inputs, "name", "kmsKeyId", "logGroupClass", "deletionProtectionEnabled")
        tags = {"tags": inputs["tags"]} if inputs.get("tags") else {}
        aws.send("logs", "CreateLogGroup", parameters, self._names, **tags)
        rid = str(inputs["name"])
        with keep_on_failure(rid):
            self._retain(aws, rid, inputs)
        return rid

    @staticmethod
    def _retain(aws: Aws, rid: str, inputs: Props) -> None:
        if inputs.get("retentionInDays"):
            aws.client("logs").put_retention_policy(
                logGroupName=rid, retentionInDays=int(inputs["retentionInDays"])
            )

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the group of exactly this name."""
        logs = aws.client("logs")
        pages = logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=rid)
        found = next(
            (item for page in pages for item in page["logGroups"] if item["logGroupName"] == rid), None
        )
        if found is None:
            return None
        out = self.decode(found, self._names)
        out["arn"] = str(out["arn"]).removesuffix(":*")
        out["retentionInDays"] = found.get("retentionInDays", 0)
        out["kmsKeyId"] = found.get("kmsKeyId")
        out["tags"] = dict(logs.list_tags_for_resource(resourceArn=out["arn"]).get("tags") or {})
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change retention, key, protection and tags in place."""
        logs = aws.client("logs")
        if "retentionInDays" in changed:
            if new.get("retentionInDays"):
                self._retain(aws, rid, new)
            else:
                logs.delete_retention_policy(logGroupName=rid)
        if "kmsKeyId" in changed:
            if new.get("kmsKeyId"):
                logs.associate_kms_key(logGroupName=rid, kmsKeyId=new["kmsKeyId"])
            else:
                logs.disassociate_kms_key(logGroupName=rid)
        if "deletionProtectionEnabled" in changed:
            protected = bool(new.get("deletionProtectionEnabled"))
            logs.put_log_group_deletion_protection(
                logGroupIdentifier=rid, deletionProtectionEnabled=protected
            )
        retag(logs, {"resourceArn": str(old["arn"])}, old, new, tags="tags", keys="tagKeys", form=dict)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the group with its logs, unless the program keeps it."""
        if not state.get("skipDestroy"):
            aws.client("logs").delete_log_group(logGroupName=rid)


HANDLERS = (LogGroup(),)
