"""Service quotas of EC2, VPC, EKS and FSx: list, get, and increase requests, which are granted at once.

Codes and defaults: EC2 user guide ("Spot Instance quotas") and the quota tables published with the Service
Quotas API. moto's own table serves VPC. The applied values of EC2 and FSx are fictitious: large enough that
no fleet is rejected unless a test requests less.
"""

from __future__ import annotations

import uuid
from typing import Any

from moto.core.base_backend import BackendDict, BaseBackend
from moto.core.utils import utcnow

from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

APPLIED_VCPUS = 100_000.0
APPLIED_GIB = 10_000_000.0

EC2_QUOTAS = {
    "L-1216C47A": ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 5.0),
    "L-DB2E81BA": ("Running On-Demand G and VT instances", 0.0),
    "L-417A185B": ("Running On-Demand P instances", 0.0),
    "L-34B43A08": ("All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", 5.0),
    "L-3819A6DF": ("All G and VT Spot Instance Requests", 0.0),
    "L-7212CCBC": ("All P4, P3 and P2 Spot Instance Requests", 0.0),
    "L-C4BD4855": ("All P5 Spot Instance Requests", 0.0),
}
"""Code -> name and AWS's default for a new account, in vCPUs."""

COUNTED = {
    "L-0263D0A3": ("EC2-VPC Elastic IPs", 5.0),
    "L-3E6EC3A3": ("Site-to-Site VPN connections per Region", 50.0),
    "L-7029FAB6": ("Virtual private gateways per Region", 5.0),
    "L-4FB7FF5D": ("Customer gateways per Region", 50.0),
}
"""Other quotas of EC2, with AWS's defaults (AWS Site-to-Site VPN User Guide, "quotas")."""

OTHER_QUOTAS = {
    "route53resolver": {"L-4A669CC0": ("Resolver endpoints per AWS Region", 4.0)},
    "eks": {
        "L-1194D53C": ("Clusters", 100.0),
        "L-6D54EA21": ("Managed node groups per cluster", 30.0),
        "L-BD136A63": ("Nodes per managed node group", 450.0),
    },
    "fsx": {
        "L-C48231E5": ("Lustre Scratch file systems", 100.0),
        "L-AD2FC696": ("Lustre Scratch storage capacity", 100_800.0),
        "L-9AFA1F09": ("Lustre Persistent_1 file systems", 100.0),
        "L-C8640C82": ("Lustre Persistent_1 storage capacity", 100_800.0),
        "L-FD6F2F22": ("Lustre Persistent_2 file systems", 100.0),
        "L-8F1B9C74": ("Lustre Persistent_2 storage capacity", 100_800.0),
    },
}
"""Service -> code -> name and AWS's default; capacities are GiB."""

NAMES = {
    "eks": "Amazon Elastic Kubernetes Service (Amazon EKS)",
    "fsx": "Amazon FSx",
    "ec2": "Amazon Elastic Compute Cloud (Amazon EC2)",
    "route53resolver": "Amazon Route 53 Resolver",
    "vpc": "Amazon Virtual Private Cloud (Amazon VPC)",
}


class QuotaBackend(BaseBackend):  # type: ignore[misc]
    """Increased quotas and their requests, in one account and region."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.raised: dict[tuple[str, str], float] = {}
        self.requests: dict[str, Params] = {}


quota_backends = BackendDict(QuotaBackend, "service-quotas")


def _backend(call: Call) -> QuotaBackend:
    found: QuotaBackend = quota_backends[call.account][call.region]
    return found


@operation("servicequotas", "ListServices")
def list_services(call: Call) -> Params:
    """Return the services with quotas."""
    return {"Services": [{"ServiceCode": code, "ServiceName": name} for code, name in NAMES.items()]}


@operation("servicequotas", "ListAWSDefaultServiceQuotas")
def list_aws_default_service_quotas(call: Call) -> Params:
    """AWS's defaults of a service."""
    return _page(call, list(_defaults(call, call.params["ServiceCode"]).values()))


@operation("servicequotas", "ListServiceQuotas")
def list_service_quotas(call: Call) -> Params:
    """The applied quotas of a service."""
    service = call.params["ServiceCode"]
    return _page(call, [_applied(call, service, code) for code in _defaults(call, service)])


@operation("servicequotas", "GetAWSDefaultServiceQuota")
def get_aws_default_service_quota(call: Call) -> Params:
    """One default."""
    return {"Quota": _find(call)}


@operation("servicequotas", "GetServiceQuota")
def get_service_quota(call: Call) -> Params:
    """One applied quota."""
    _find(call)
    return {"Quota": _applied(call, call.params["ServiceCode"], call.params["QuotaCode"])}


@operation("servicequotas", "RequestServiceQuotaIncrease")
def request_service_quota_increase(call: Call) -> Params:
    """Request an increase, which is granted at once."""
    quota = _find(call)
    service, code, wanted = quota["ServiceCode"], quota["QuotaCode"], float(call.params["DesiredValue"])
    if not quota["Adjustable"]:
        raise AwsError("IllegalArgumentException", f"The quota {code} is not adjustable.")
    if wanted <= _applied(call, service, code)["Value"]:
        message = "You must provide a quota value greater than the current quota value."
        raise AwsError("IllegalArgumentException", message)
    now = utcnow()
    kept = ("ServiceCode", "ServiceName", "QuotaCode", "QuotaName", "QuotaArn", "GlobalQuota", "Unit")
    request = {
        "Id": uuid.uuid4().hex,
        **{key: quota[key] for key in kept},
        "DesiredValue": wanted,
        "Status": "APPROVED",
        "Created": now,
        "LastUpdated": now,
        "Requester": f'{{"accountId":"{call.account}"}}',
        "QuotaRequestedAtLevel": "ACCOUNT",
    }
    _backend(call).raised[service, code] = wanted
    _backend(call).requests[request["Id"]] = request
    return {"RequestedQuota": request}


@operation("servicequotas", "GetRequestedServiceQuotaChange")
def get_requested_service_quota_change(call: Call) -> Params:
    """One request."""
    found = _backend(call).requests.get(call.params["RequestId"])
    if found is None:
        raise AwsError("NoSuchResourceException", "The specified request does not exist.")
    return {"RequestedQuota": found}


@operation("servicequotas", "ListRequestedServiceQuotaChangeHistory")
def list_requested_service_quota_change_history(call: Call) -> Params:
    """Return the requests, filtered by service or status."""
    wanted = {key: call.params[key] for key in ("ServiceCode", "Status") if call.params.get(key)}
    every = _backend(call).requests.values()
    return {"RequestedQuotas": [one for one in every if all(one[k] == v for k, v in wanted.items())]}


@operation("servicequotas", "ListRequestedServiceQuotaChangeHistoryByQuota")
def list_requested_service_quota_change_history_by_quota(call: Call) -> Params:
    """The requests for one quota."""
    wanted = {key: call.params[key] for key in ("ServiceCode", "QuotaCode", "Status") if call.params.get(key)}
    every = _backend(call).requests.values()
    return {"RequestedQuotas": [one for one in every if all(one[k] == v for k, v in wanted.items())]}


def _defaults(call: Call, service: str) -> dict[str, Params]:
    if service == "vpc":
        from moto.servicequotas.resources.default_quotas.vpc import VPC_DEFAULT_QUOTAS

        arn = f"arn:{call.partition}:servicequotas:{call.region}::vpc/"
        return {one["QuotaCode"]: {**one, "QuotaArn": arn + one["QuotaCode"]} for one in VPC_DEFAULT_QUOTAS}
    quotas = {**EC2_QUOTAS, **COUNTED} if service == "ec2" else OTHER_QUOTAS.get(service)
    if quotas is None:
        raise AwsError("NoSuchResourceException", f"The sandbox has no quotas of the service {service}.")
    return {
        code: {
            "ServiceCode": service,
            "ServiceName": NAMES[service],
            "QuotaArn": f"arn:{call.partition}:servicequotas:{call.region}::{service}/{code}",
            "QuotaCode": code,
            "QuotaName": name,
            "Value": value,
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }
        for code, (name, value) in quotas.items()
    }


def _find(call: Call) -> Any:
    found = _defaults(call, call.params["ServiceCode"]).get(call.params["QuotaCode"])
    if found is None:
        raise AwsError("NoSuchResourceException", f"There is no quota {call.params['QuotaCode']}.")
    return found


def _applied(call: Call, service: str, code: str) -> Params:
    quota = _defaults(call, service)[code]
    made_up = {"ec2": APPLIED_VCPUS, "fsx": APPLIED_GIB} if code not in COUNTED else {}
    value = made_up.get(service, quota["Value"])
    value = _backend(call).raised.get((service, code), value)
    arn = f"arn:{call.partition}:servicequotas:{call.region}:{call.account}:{service}/{code}"
    return {**quota, "Value": value, "QuotaArn": arn, "QuotaAppliedAtLevel": "ACCOUNT"}


def _page(call: Call, quotas: list[Params]) -> Params:
    start = int(call.params.get("NextToken") or 0)
    end = start + int(call.params.get("MaxResults") or 100)
    return {"Quotas": quotas[start:end], "NextToken": str(end) if end < len(quotas) else None}
