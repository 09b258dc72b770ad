"""Parameters of Systems Manager."""

from __future__ import annotations

from typing import Any, ClassVar

from gpufleet.lab.aws.provider.handler import Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names, tag_list, tags_to_map
from gpufleet.lab.aws.provider.resources.ec2 import find
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import Props

_TYPES = frozenset({"String", "StringList", "SecureString"})
_KEYS = (
    "allowedPattern",
    "dataType",
    "description",
    "keyId",
    "name",
    "tier",
    "type",
    "value",
    "insecureValue",
)
_NAMES = Names(rename={"insecureValue": "Value"})


class Parameter(Handler):
    """aws.ssm.Parameter. The emulated AWS keeps the tier of the state: moto returns none."""

    pulumi_type = "aws:ssm/parameter:Parameter"
    force_new = frozenset({"name", "dataType"})
    computed = frozenset({"arn", "dataType", "insecureValue", "keyId", "tier"})
    defaults: ClassVar[Defaults] = {}

    def check(self, inputs: Props) -> list[Problem]:
        """Check the type, and that a name is set: the real provider makes one up, nobody finds it."""
        problems = [] if inputs.get("name") else [Problem("name", "set a name, such as /fleet/prod/key")]
        if inputs.get("type") not in _TYPES:
            problems.append(
                Problem("type", f"{inputs.get('type')} is not one of {', '.join(sorted(_TYPES))}")
            )
        if ("value" in inputs) == ("insecureValue" in inputs):
            problems.append(Problem("value", "set one of value and insecureValue"))
        return problems

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the parameter."""
        tags: dict[str, Any] = {"Tags": tag_list(inputs["tags"])} if inputs.get("tags") else {}
        aws.send("ssm", "PutParameter", only(inputs, *_KEYS), _NAMES, **tags)
        return str(inputs["name"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The parameter and its value."""
        ssm = aws.client("ssm")
        about = find(
            ssm.describe_parameters,
            "Parameters",
            ParameterFilters=[{"Key": "Name", "Option": "Equals", "Values": [rid]}],
        )
        if about is None:
            return None
        found = ssm.get_parameter(Name=rid, WithDecryption=True)["Parameter"]
        tags = ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId=rid)["TagList"]
        return {
            "name": rid,
            "arn": aws.arn("ssm", f"parameter{rid}" if rid.startswith("/") else f"parameter/{rid}"),
            "type": found["Type"],
            # The program chooses which of the two shows the value.
            "insecureValue" if "insecureValue" in state else "value": found["Value"],
            "version": found["Version"],
            "dataType": found.get("DataType"),
            "description": about.get("Description"),
            "allowedPattern": about.get("AllowedPattern"),
            "tags": tags_to_map(tags),
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change value, description and tags in place."""
        if changed - {"tags", "tagsAll", "overwrite"}:
            aws.send("ssm", "PutParameter", only(new, *_KEYS), _NAMES, Overwrite=True)
        before, after = old.get("tags") or {}, new.get("tags") or {}
        fresh = {key: value for key, value in after.items() if before.get(key) != value}
        this = {"ResourceType": "Parameter", "ResourceId": rid}
        if gone := sorted(before.keys() - after.keys()):
            aws.client("ssm").remove_tags_from_resource(**this, TagKeys=gone)
        if fresh:
            aws.client("ssm").add_tags_to_resource(**this, Tags=tag_list(fresh))

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the parameter."""
        aws.client("ssm").delete_parameter(Name=rid)


HANDLERS = (Parameter(),)
