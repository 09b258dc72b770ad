"""EventBridge rules and their targets."""

from __future__ import annotations

from typing import Any, ClassVar

from gpufleet.errors import CloudError
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names, tag_list, tags_to_map, to_request
from gpufleet.lab.aws.provider.naming import auto_name
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import Props

_DEFAULT_BUS = "default"


class EventRule(Handler):
    """aws.cloudwatch.EventRule."""

    pulumi_type = "aws:cloudwatch/eventRule:EventRule"
    force_new = frozenset({"eventBusName", "name", "namePrefix"})
    computed = frozenset({"state", "isEnabled"})
    defaults: ClassVar[Defaults] = {"eventBusName": _DEFAULT_BUS, "forceDestroy": False}
    documents = frozenset({"eventPattern"})
    auto_name = AutoName(max_length=64)
    _names = Names(rename={"roleArn": "RoleArn"})

    def check(self, inputs: Props) -> list[Problem]:
        """Check that the rule has a pattern or a schedule."""
        if not inputs.get("eventPattern") and not inputs.get("scheduleExpression"):
            return [Problem("eventPattern", "set eventPattern or scheduleExpression (or both)")]
        return []

    def _put(self, aws: Aws, inputs: Props) -> None:
        keys = (
            "name",
            "description",
            "eventBusName",
            "eventPattern",
            "roleArn",
            "scheduleExpression",
            "state",
        )
        parameters = only(inputs, *keys)
        if "state" not in parameters and inputs.get("isEnabled") is False:
            parameters["state"] = "DISABLED"
        aws.send("events", "PutRule", parameters, self._names)

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the rule."""
        self._put(aws, inputs)
        rid = _rule_id(inputs)
        if inputs.get("tags"):
            arn = aws.client("events").describe_rule(**_of(rid))["Arn"]
            aws.client("events").tag_resource(ResourceARN=arn, Tags=tag_list(inputs["tags"]))
        return rid

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The rule."""
        events = aws.client("events")
        found = events.describe_rule(**_of(rid))
        out = self.decode(found)
        out["isEnabled"] = found.get("State") != "DISABLED"
        out["eventBusName"] = found.get("EventBusName") or _DEFAULT_BUS
        for key in ("description", "eventPattern", "scheduleExpression", "roleArn"):
            out[key] = out.get(key) or None
        out["tags"] = tags_to_map(events.list_tags_for_resource(ResourceARN=found["Arn"]).get("Tags"))
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Write the rule again."""
        if changed - {"tags", "forceDestroy"}:
            self._put(aws, new)
        retag(aws.client("events"), {"ResourceARN": str(old["arn"])}, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the rule; its targets are already deleted."""
        aws.client("events").delete_rule(**_of(rid), Force=bool(state.get("forceDestroy")))


def _rule_id(inputs: Props) -> str:
    bus, name = inputs.get("eventBusName") or _DEFAULT_BUS, str(inputs["name"])
    return name if bus == _DEFAULT_BUS else f"{bus}/{name}"


def _of(rid: str) -> dict[str, str]:
    bus, _, name = rid.rpartition("/")
    return {"Name": name, "EventBusName": bus or _DEFAULT_BUS}


_TARGET = Names(
    rename={
        "targetId": "Id",
        "httpTarget": "HttpParameters",
        "kinesisTarget": "KinesisParameters",
        "sqsTarget": "SqsParameters",
        "inputTransformer.inputPaths": "InputPathsMap",
        "batchTarget": "BatchParameters",
        "batchTarget.jobAttempts": "RetryStrategy",
        "batchTarget.arraySize": "ArrayProperties",
        "runCommandTargets": "RunCommandParameters",
        "redshiftTarget": "RedshiftDataParameters",
        "appsyncTarget": "AppSyncParameters",
        "appsyncTarget.graphqlOperation": "GraphQLOperation",
        "sagemakerPipelineTarget": "SageMakerPipelineParameters",
        "sagemakerPipelineTarget.pipelineParameterLists": "PipelineParameterList",
    },
    encode={
        "batchTarget.jobAttempts": lambda count: {"Attempts": int(count)},
        "batchTarget.arraySize": lambda size: {"Size": int(size)},
        "runCommandTargets": lambda targets: {"RunCommandTargets": targets},
    },
)


class EventTarget(Handler):
    """aws.cloudwatch.EventTarget."""

    pulumi_type = "aws:cloudwatch/eventTarget:EventTarget"
    force_new = frozenset({"eventBusName", "rule", "targetId"})
    computed = frozenset({"targetId"})
    defaults: ClassVar[Defaults] = {"eventBusName": _DEFAULT_BUS, "forceDestroy": False}
    documents = frozenset({"input"})

    def check(self, inputs: Props) -> list[Problem]:
        """Reject the one block whose spelling differs too much for a mapping."""
        if inputs.get("ecsTarget"):
            return [
                Problem(
                    "ecsTarget",
                    "the emulated AWS of gpufleet supports no ECS targets: use a queue or a function",
                )
            ]
        return []

    def _put(self, aws: Aws, inputs: Props, target_id: str) -> None:
        events = aws.client("events")
        values = {
            key: value for key, value in inputs.items()
            if key not in {"rule", "eventBusName", "forceDestroy", "region",
            "targetId"} and not key.startswith("__")
        }  # fmt: skip
        target = to_request(events.meta.service_model.shape_for("Target"), values, _TARGET) | {
            "Id": target_id
        }
        answer: dict[str, Any] = events.put_targets(
            Rule=inputs["rule"], EventBusName=inputs.get("eventBusName") or _DEFAULT_BUS, Targets=[target]
        )
        for failed in answer.get("FailedEntries") or ():
            raise CloudError(
                f"{failed.get('ErrorCode')}: {failed.get('ErrorMessage')}", remedy="check rule and target"
            )

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the target; without an id it gets one."""
        target_id = str(inputs.get("targetId") or auto_name(AutoName(max_length=64), "target", b""))
        self._put(aws, inputs, target_id)
        return _target_id(inputs, target_id)

    @staticmethod
    def _split(rid: str, state: Props) -> tuple[str, str, str]:
        bus, rule = str(state.get("eventBusName") or _DEFAULT_BUS), str(state.get("rule", ""))
        prefix = f"{rule}-" if bus == _DEFAULT_BUS else f"{bus}-{rule}-"
        return bus, rule, rid.removeprefix(prefix)

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the target among those of its rule."""
        bus, rule, target_id = self._split(rid, state)
        answer = aws.client("events").list_targets_by_rule(Rule=rule, EventBusName=bus)
        found = next((item for item in answer["Targets"] if item["Id"] == target_id), None)
        if found is None:
            return None
        simple = {key: value for key, value in found.items() if key in {"Arn", "Id", "Input", "InputPath",
        "RoleArn",
                  "DeadLetterConfig", "RetryPolicy", "InputTransformer", "SqsParameters",
                  "KinesisParameters"}}  # fmt: skip
        out = self.decode(simple, Names(rename=_TARGET.rename))
        for key in ("input", "inputPath", "roleArn"):
            out.setdefault(key, None)
        return out | {"rule": rule, "eventBusName": bus, "targetId": target_id}

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Write the target again under its id."""
        self._put(aws, new, self._split(rid, new)[2])

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the target."""
        bus, rule, target_id = self._split(rid, state)
        force = bool(state.get("forceDestroy"))
        aws.client("events").remove_targets(Rule=rule, EventBusName=bus, Ids=[target_id], Force=force)


def _target_id(inputs: Props, target_id: str) -> str:
    bus = inputs.get("eventBusName") or _DEFAULT_BUS
    return f"{inputs['rule']}-{target_id}" if bus == _DEFAULT_BUS else f"{bus}-{inputs['rule']}-{target_id}"


HANDLERS = (EventRule(), EventTarget())
