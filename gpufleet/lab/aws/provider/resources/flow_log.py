"""VPC flow logs."""

from __future__ import annotations

from typing import ClassVar

from gpufleet.errors import CloudError
from gpufleet.lab.aws.provider.handler import Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names
from gpufleet.lab.aws.provider.resources.ec2 import find, remove, retag, tag_spec
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import settle
from gpufleet.lab.aws.provider.wire import Props

_OF = {
    "vpcId": "VPC", "subnetId": "Subnet", "eniId": "NetworkInterface", "transitGatewayId": "TransitGateway",
    "transitGatewayAttachmentId": "TransitGatewayAttachment", "regionalNatGatewayId": "RegionalNatGateway",
}  # fmt: skip
_NAMES = Names(rename={
    "iamRoleArn": "DeliverLogsPermissionArn", "deliverCrossAccountRole": "DeliverCrossAccountRole",
})  # fmt: skip


class FlowLog(Handler):
    """aws.ec2.FlowLog."""

    pulumi_type = "aws:ec2/flowLog:FlowLog"
    force_new = frozenset({
        "deliverCrossAccountRole", "destinationOptions", "iamRoleArn", "logDestination", "logDestinationType",
        "logFormat", "maxAggregationInterval", "trafficType", "tagFieldSpecifications", *_OF,
    })  # fmt: skip
    computed = frozenset({"logDestination", "logFormat"})
    defaults: ClassVar[Defaults] = {"logDestinationType": "cloud-watch-logs", "maxAggregationInterval": 600}

    def check(self, inputs: Props) -> list[Problem]:
        """Check that exactly one resource is monitored."""
        found = []
        if len([key for key in _OF if inputs.get(key)]) != 1:
            found.append(Problem("vpcId", f"a flow log has exactly one source: set one of {', '.join(_OF)}"))
        if not inputs.get("trafficType") and (
            inputs.get("vpcId") or inputs.get("subnetId") or inputs.get("eniId")
        ):
            found.append(Problem("trafficType", "set trafficType to ACCEPT, REJECT or ALL"))
        return found

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the flow log; its role may be seconds old."""
        watched = next(key for key in _OF if inputs.get(key))
        parameters = only(
            inputs, "deliverCrossAccountRole", "destinationOptions", "iamRoleArn", "logDestination",
            "logDestinationType", "logFormat", "maxAggregationInterval", "trafficType",
            "tagFieldSpecifications",
        )  # fmt: skip
        made = settle(
            lambda: aws.send(
                "ec2", "CreateFlowLogs", parameters, _NAMES, ResourceIds=[inputs[watched]],
                ResourceType=_OF[watched],
                **tag_spec("vpc-flow-log", inputs),
            ),
            codes="InvalidParameter", message="Unable to assume given IAM role", timeout_s=10.0,
        )  # fmt: skip
        for failed in made.get("Unsuccessful") or ():
            reason = failed.get("Error") or {}
            raise CloudError(
                f"{reason.get('Code')}: {reason.get('Message')}",
                remedy="correct its source or destination",
            )
        return str(made["FlowLogIds"][0])

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return find(aws.client("ec2").describe_flow_logs, "FlowLogs", FlowLogIds=[rid])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The flow log."""
        found = self._find(aws, rid)
        if found is None:
            return None
        out = self.decode(found, _NAMES)
        watched = next((key for key in _OF if state.get(key)), "vpcId")
        out[watched] = found.get("ResourceId", state.get(watched))
        out["arn"] = aws.arn("ec2", f"vpc-flow-log/{rid}")
        out["tags"] = out.get("tags", {})
        if not out.get("logDestination") and found.get("LogGroupName"):
            out["logDestination"] = aws.arn("logs", f"log-group:{found['LogGroupName']}")
        declared = str(state.get("logDestination") or "")
        # AWS shows a log group's ARN with and without the trailing wildcard.
        if declared.removesuffix(":*") == str(out.get("logDestination", "")).removesuffix(":*"):
            out["logDestination"] = declared or out.get("logDestination")
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change tags, the only change in place."""
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the flow log and wait until it is gone."""
        ec2 = aws.client("ec2")
        remove(lambda: ec2.delete_flow_logs(FlowLogIds=[rid]), lambda: self._find(aws, rid), rid)


HANDLERS = (FlowLog(),)
