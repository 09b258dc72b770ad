"""An emulated account, and the preflight of a small fleet in it."""

from __future__ import annotations

import copy
import datetime as dt
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from gpufleet.account.preflight import run_preflight
from gpufleet.account.result import AccountCheck, AccountFinding, Preflight
from gpufleet.catalog import load_catalog
from gpufleet.lab.aws.backends import install
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.spec.models import FleetSpec

REGION = "us-east-1"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
SERVICES = ("directconnect", "ec2", "eks", "fsx", "iam", "route53resolver", "service-quotas", "sts")


def group(kind: str = "g6.xlarge", **more: Any) -> dict[str, Any]:
    """A node group of two on-demand nodes, four at maximum."""
    return {
        "name": "nodes",
        "instance_types": [kind],
        "workload": "batch",
        "capacity": {"on_demand": {"min": 2, "max": 4}},
        **more,
    }


def fleet(*groups: dict[str, Any], **site: Any) -> FleetPlan:
    """The plan of a fleet of one site in two zones, Slurm by default."""
    whole: dict[str, Any] = {
        "site": "use1",
        "provider": "aws",
        "region": REGION,
        "zones": [f"{REGION}a", f"{REGION}b"],
        "network": {"cidr": "10.40.0.0/16"},
        "scheduler": "slurm",
        "node_groups": list(groups),
        **site,
    }
    spec = FleetSpec.model_validate(
        {
            "apiVersion": "gpufleet/v1",
            "fleet": "atlas",
            "environment": "prod",
            "budget": {"monthly": "1000 USD"},
            "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
            "software": {"channel": "2026.11"},
            "cloud": [copy.deepcopy(whole)],
        }
    )
    return build_plan(spec, load_catalog())


OWN_TAGS = [{"Key": "gpufleet:fleet", "Value": "atlas"}, {"Key": "gpufleet:environment", "Value": "prod"}]


class Account:
    """An emulated account. `answers` replaces answers to calls (`iam:GetRole`), `refused` refuses them."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
        self.calls: list[str] = []
        self._made: dict[tuple[str, str, str], Any] = {}
        self._keys = ("testing", "testing", "")

    def client(self, service: str, region: str = REGION) -> Any:
        """A client whose calls are recorded, refused and replaced."""
        name = (service, region, self._keys[0])
        if name not in self._made:
            identity, secret, token = self._keys
            made = boto3.client(
                service,
                region_name=region,
                aws_access_key_id=identity,
                aws_secret_access_key=secret,
                aws_session_token=token or None,
            )
            self._made[name] = self._watched(service, made)
        return self._made[name]

    def _watched(self, service: str, made: Any) -> Any:
        original = made._make_api_call

        def call(operation: str, parameters: dict[str, Any]) -> Any:
            action = f"{service}:{operation}"
            self.calls.append(action)
            code = self.refused.get(action)
            if code == "unreachable":
                raise EndpointConnectionError(endpoint_url="https://example.invalid")
            if code is not None:
                raise ClientError({"Error": {"Code": code, "Message": "no"}}, operation)
            if action in self.answers:
                return self.answers[action](parameters)
            return original(operation, parameters)

        made._make_api_call = call
        return made

    def user(self, *statements: Mapping[str, Any]) -> None:
        """Use the keys of a user with these statements."""
        iam = boto3.client("iam", region_name=REGION)
        iam.create_user(UserName="ci")
        if statements:
            iam.put_user_policy(UserName="ci", PolicyName="own", PolicyDocument=_document(*statements))
        key = iam.create_access_key(UserName="ci")["AccessKey"]
        self._keys = (key["AccessKeyId"], key["SecretAccessKey"], "")

    def role(
        self, *statements: Mapping[str, Any], path: str = "/", boundary: Mapping[str, Any] | None = None
    ) -> None:
        """Use the keys of a role with these statements, and a permissions boundary."""
        iam = boto3.client("iam", region_name=REGION)
        more = {}
        if boundary is not None:
            made = iam.create_policy(PolicyName="boundary", PolicyDocument=_document(boundary))
            more = {"PermissionsBoundary": made["Policy"]["Arn"]}
        role = iam.create_role(RoleName="deploy", Path=path, AssumeRolePolicyDocument=_document(), **more)
        if statements:
            iam.put_role_policy(RoleName="deploy", PolicyName="own", PolicyDocument=_document(*statements))
        sts = boto3.client("sts", region_name=REGION)
        given = sts.assume_role(RoleArn=role["Role"]["Arn"], RoleSessionName="run")["Credentials"]
        self._keys = (given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])

    def quota(self, code: str, value: float) -> None:
        """Apply a value to a quota."""

        def answer(parameters: dict[str, Any]) -> dict[str, Any]:
            asked = parameters["QuotaCode"]
            return {"Quota": {"QuotaCode": asked, "Value": value if asked == code else 1e6}}

        self.answers["service-quotas:GetServiceQuota"] = answer

    def preflight(self, plan: FleetPlan, now: dt.datetime = NOW) -> Preflight:
        """The preflight of a plan."""
        for service in SERVICES:
            self.client(service)
        return run_preflight(plan, load_catalog(), self.client, now)


def _document(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def allow(*actions: str, effect: str = "Allow", **more: Any) -> dict[str, Any]:
    """A statement."""
    return {"Effect": effect, "Action": list(actions), "Resource": "*", **more}


def check(preflight: Preflight, name: str) -> AccountCheck:
    """The only result of a check."""
    (found,) = [each for each in preflight.checks if each.check == name]
    return found


def only(preflight: Preflight, rule: str) -> AccountFinding:
    """The only finding, which is of a rule."""
    (found,) = preflight.findings
    assert found.rule == rule
    return found


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        install("directconnect", "route53resolver", "ec2", "eks", "fsx", "iam", "servicequotas")
        yield Account()
