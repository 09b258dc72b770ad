"""Lambda functions with their code in the program, and who may invoke them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any, ClassVar

from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import ARCHIVE, UNKNOWN, Props

_CODE = ("code", "s3Bucket", "s3Key", "s3ObjectVersion", "imageUri")
_SETTINGS = (
    "architectures", "description", "environment", "handler", "kmsKeyArn", "memorySize", "role", "runtime",
    "timeout",
)  # fmt: skip
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Function(Handler):
    """aws.lambda_.Function, from an archive of texts."""

    pulumi_type = "aws:lambda/function:Function"
    force_new = frozenset({"name", "packageType"})
    computed = frozenset(
        {
            "architectures",
            "codeSha256",
            "ephemeralStorage",
            "loggingConfig",
            "sourceCodeHash",
            "tracingConfig",
        }
    )
    defaults: ClassVar[Defaults] = {
        "memorySize": 128,
        "packageType": "Zip",
        "publish": False,
        "reservedConcurrentExecutions": -1,
        "skipDestroy": False,
        "timeout": 3,
    }
    auto_name = AutoName(max_length=64)
    _names = Names(rename={"name": "FunctionName", "codeSha256": "CodeSha256"})

    def check(self, inputs: Props) -> list[Problem]:
        """Check that the code is an archive of the program."""
        code = inputs.get("code")
        assets = code.get("assets", {}) if isinstance(code, dict) and ARCHIVE in code else {}
        if code != UNKNOWN and not (assets and all("text" in asset for asset in assets.values())):
            return [Problem("code", "the emulated AWS takes a pulumi.AssetArchive of texts only")]
        return []

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the function with its code."""
        tags = {"Tags": inputs["tags"]} if inputs.get("tags") else {}
        aws.send(
            "lambda",
            "CreateFunction",
            only(inputs, "name", *_SETTINGS),
            self._names,
            Code={"ZipFile": packed(inputs["code"]["assets"])},
            **tags,
        )
        return str(inputs["name"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The function; AWS returns a digest of its code, and not the program's archive."""
        try:
            found = aws.client("lambda").get_function(FunctionName=rid)
        except aws.client("lambda").exceptions.ResourceNotFoundException:
            return None
        settings = found["Configuration"]
        out = self.decode(settings, self._names)
        out |= {"arn": settings["FunctionArn"], "tags": found.get("Tags") or {}}
        out["invokeArn"] = (
            f"arn:aws:apigateway:{aws.region}:lambda:path/2015-03-31/functions/{out['arn']}/invocations"
        )
        return {key: value for key, value in out.items() if key not in _CODE}

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change code, settings and tags in place."""
        client = aws.client("lambda")
        if "code" in changed:
            client.update_function_code(FunctionName=rid, ZipFile=packed(new["code"]["assets"]))
        if changed & {*_SETTINGS} - {"architectures"}:
            settings = only(new, *(key for key in _SETTINGS if key != "architectures"))
            aws.send("lambda", "UpdateFunctionConfiguration", settings, self._names, FunctionName=rid)
        retag(client, {"Resource": str(old["arn"])}, old, new, tags="Tags", keys="TagKeys", form=dict)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the function with its permissions."""
        aws.client("lambda").delete_function(FunctionName=rid)


def packed(assets: Mapping[str, Mapping[str, str]]) -> bytes:
    """Return a zip archive of texts by name, always the same for the same texts."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, asset in sorted(assets.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), asset["text"])
    return content.getvalue()


class Permission(Handler):
    """aws.lambda_.Permission."""

    pulumi_type = "aws:lambda/permission:Permission"
    force_new = frozenset({
        "action", "eventSourceToken", "function", "functionUrlAuthType", "principal", "principalOrgId",
        "qualifier", "sourceAccount", "sourceArn", "statementId", "statementIdPrefix",
    })  # fmt: skip
    auto_name = AutoName(prop="statementId", max_length=100)
    _names = Names(rename={"function": "FunctionName"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Add a statement to the function's policy."""
        keys = ("action", "function", "principal", "sourceAccount", "sourceArn", "statementId")
        aws.send("lambda", "AddPermission", only(inputs, *keys), self._names)
        return str(inputs["statementId"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The statement."""
        try:
            policy = json.loads(aws.client("lambda").get_policy(FunctionName=state["function"])["Policy"])
        except aws.client("lambda").exceptions.ResourceNotFoundException:
            return None
        found: dict[str, Any] | None = next(
            (each for each in policy["Statement"] if each.get("Sid") == rid), None
        )
        if found is None:
            return None
        principal = found["Principal"]
        conditions = {
            key.rpartition(":")[2]: value
            for each in found.get("Condition", {}).values()
            for key, value in each.items()
        }
        return {
            "action": found["Action"],
            "function": state["function"],
            "principal": principal if isinstance(principal, str) else next(iter(principal.values())),
            "sourceAccount": conditions.get("SourceAccount"),
            "sourceArn": conditions.get("SourceArn"),
            "statementId": rid,
        }

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the statement."""
        aws.client("lambda").remove_permission(FunctionName=state["function"], StatementId=rid)


HANDLERS = (Function(), Permission())
