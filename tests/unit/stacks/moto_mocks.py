"""Mocks that create the program's resources in moto, through the sandbox's handlers.

botocore's service models judge every parameter on the way, and moto its values: a mock that only
repeats its inputs would take anything.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import boto3
import pulumi
from botocore.client import BaseClient
from moto import mock_aws
from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs

from gpufleet.account.actions import action_sets
from gpufleet.account.needs import region_needs
from gpufleet.components.capacity_block_offering import OfferingProvider
from gpufleet.components.capacity_block_schedule import ScheduleProvider
from gpufleet.components.nodes_in_service import WaitProvider
from gpufleet.components.ordered_capacity import OrderProvider
from gpufleet.lab.aws.backends import install
from gpufleet.lab.aws.provider import planning
from gpufleet.lab.aws.provider.config import AwsProviderConfig
from gpufleet.lab.aws.provider.handler import Aws
from gpufleet.lab.aws.provider.invokes import run_invoke
from gpufleet.lab.aws.provider.registry import handler_for
from gpufleet.lab.aws.provider.wire import ARCHIVE
from gpufleet.plan.models import FleetPlan
from tests.unit.components.recording import ACCOUNT, EchoMocks, unsecret


class InProcessClients:
    """boto3 clients on moto in this process, with the interface of the provider's own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[tuple[str, str], Any] = {}

    def get(self, service: str, region: str) -> Any:
        with self._lock:
            if (service, region) not in self._clients:
                self._clients[service, region] = boto3.client(service, region_name=region)
            return self._clients[service, region]

    def account(self, region: str) -> str:
        del region
        return ACCOUNT

    def endpoint_data(self) -> Any:
        return boto3.Session()._session.get_component("data_loader").load_data("endpoints")


class MotoMocks(EchoMocks):
    """Creates AWS resources in moto, one at a time (moto shares objects between threads, and the SDK
    calls from many); anything else is echoed."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._clients: Any = InProcessClients()
        self._regions: dict[str, str] = {}

    def call(self, args: MockCallArgs) -> Any:
        aws = Aws(self._clients, self._region(args.provider))
        with self._one_at_a_time:
            return run_invoke(aws, args.token, unsecret(args.args))

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        with self._one_at_a_time:
            return self._new_resource(args)

    def _new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        inputs = unsecret(args.inputs)
        if args.typ == "pulumi:providers:aws":
            self._regions[args.name] = inputs["region"]
        if args.typ == "pulumi-python:dynamic/capacity:CapacityBlockOffering":
            found = OfferingProvider().create(inputs)
            return found.id, {**inputs, **(found.outs or {})}
        if args.typ == "pulumi-python:dynamic/capacity:CapacityBlockSchedule":
            put = ScheduleProvider().create(inputs)
            return put.id, {**inputs, **(put.outs or {})}
        if args.typ == "pulumi-python:dynamic/node_group:NodesInService":
            waited = WaitProvider().create(inputs)
            return waited.id, {**inputs, **(waited.outs or {})}
        if args.typ == "pulumi-python:dynamic/node_group:OrderedCapacity":
            drawn = OrderProvider().create(inputs)
            return drawn.id, {**inputs, **(drawn.outs or {})}
        if not args.typ.startswith("aws:"):
            return super().new_resource(args)
        return self._create(args.typ, args.name, _whole(inputs), self._region(args.provider or ""))

    def _create(
        self, token: str, name: str, inputs: dict[str, Any], region: str
    ) -> tuple[str, dict[str, Any]]:
        handler, config = handler_for(token), AwsProviderConfig(region=region)
        filled, problems = planning.checked_inputs(handler, config, inputs, {}, name, name.encode().ljust(32))
        if problems:
            raise AssertionError(f"{token} {name}: {problems}")
        aws = Aws(self._clients, region)
        rid = handler.create(aws, filled)
        observed = handler.read(aws, rid, filled)
        assert observed is not None, f"{token} {name} is not there after its creation"
        state = planning.state_of(handler, config, filled, rid, observed)
        # The SDK wants an archive of the class that the program gave.
        return rid, {key: value for key, value in state.items() if key != "code"}

    def _region(self, provider: str) -> str:
        # <urn of the provider>::<id>
        return self._regions.get(provider.rpartition("::")[0].rpartition("::")[2], "us-east-1")


@contextmanager
def emulated_aws() -> Iterator[None]:
    """An empty AWS account in this process, with the sandbox's extensions of moto."""
    keys = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    with mock.patch.dict(os.environ, kept | keys, clear=True), mock_aws():
        install()
        yield


_ACTIONS = {
    "budgets:CreateBudget": "budgets:ModifyBudget",
    "budgets:CreateNotification": "budgets:ModifyBudget",
    "budgets:DescribeBudget": "budgets:ViewBudget",
    "budgets:DescribeNotificationsForBudget": "budgets:ViewBudget",
    "budgets:DescribeSubscribersForNotification": "budgets:ViewBudget",
    "efs": "elasticfilesystem",
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:PutBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:PutBucketLifecycleConfiguration": "s3:PutLifecycleConfiguration",
    "s3:PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
}
"""Calls, and a service, whose action has another name (Service Authorization Reference)."""


@contextmanager
def recorded_actions() -> Iterator[set[str]]:
    """The IAM actions of all calls that are made meanwhile; who the caller is may be asked by everybody."""
    found: set[str] = set()
    original = BaseClient._make_api_call

    def recorded(client: Any, operation: str, parameters: Any) -> Any:
        service = client.meta.service_model.service_name
        call = f"{_ACTIONS.get(service, service)}:{operation}"
        if call != "sts:GetCallerIdentity":
            found.add(_ACTIONS.get(call, call))
        return original(client, operation, parameters)

    with mock.patch.object(BaseClient, "_make_api_call", recorded):
        yield found


def simulated_actions(plan: FleetPlan) -> set[str]:
    """The IAM actions that preflight simulates for a plan."""
    return {
        action
        for region in region_needs(plan)
        for each in action_sets(region, "aws", ACCOUNT)
        for action in each.actions
    }


def _whole(value: Any) -> Any:
    """Numbers travel as floating point in Pulumi's protocol; the provider gives handlers integers, and
    archives as plain objects."""
    if isinstance(value, pulumi.AssetArchive):
        return {
            ARCHIVE: "archive",
            "assets": {name: {"text": item.text} for name, item in value.assets.items()},
        }
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return value
