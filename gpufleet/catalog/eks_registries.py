"""Accounts of EKS's own image registries: one for most regions, others for the rest.

Source: Amazon EKS user guide, "View Amazon container image registries for Amazon EKS add-ons"
(add-ons-images), August 2026.
"""

from __future__ import annotations

from collections.abc import Mapping

_COMMON_ACCOUNT = "602401143452"

_COMMON_REGIONS = (
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ca-central-1",
    "eu-central-1",
    "eu-north-1",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
)

REGISTRY_ACCOUNTS: Mapping[str, str] = {
    **dict.fromkeys(_COMMON_REGIONS, _COMMON_ACCOUNT),
    "af-south-1": "877085696533",
    "ap-east-1": "800184023465",
    "ap-south-2": "900889452093",
    "ap-southeast-3": "296578399912",
    "ap-southeast-4": "491585149902",
    "ap-southeast-5": "151610086707",
    "ca-west-1": "761377655185",
    "cn-north-1": "918309763551",
    "cn-northwest-1": "961992271922",
    "eu-central-2": "900612956339",
    "eu-south-1": "590381155156",
    "eu-south-2": "455263428931",
    "il-central-1": "066635153087",
    "me-central-1": "759879836304",
    "me-south-1": "558608220178",
}
"""Account by region. Newer regions have their own account, which must be looked up."""
