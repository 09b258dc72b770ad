"""Controls of published frameworks that these rules implement, by their ids."""

from __future__ import annotations

from gpufleet.policy.rule import Framework

_PAGES = "https://docs.aws.amazon.com/securityhub/latest/userguide"


def fsbp(control: str) -> Framework:
    """Return a control of AWS Foundational Security Best Practices, such as `EC2.8`."""
    return Framework("AWS Foundational Security Best Practices", control, _address(control))


def security_hub(control: str) -> Framework:
    """Return a control of another standard in AWS Security Hub (NIST, PCI DSS, CIS)."""
    return Framework("AWS Security Hub", control, _address(control))


def well_architected(practice: str, page: str) -> Framework:
    """Return a best practice of the security pillar of the AWS Well-Architected Framework."""
    address = f"https://docs.aws.amazon.com/wellarchitected/latest/security-pillar/{page}.html"
    return Framework("AWS Well-Architected Framework", practice, address)


def _address(control: str) -> str:
    service, _, number = control.lower().partition(".")
    return f"{_PAGES}/{service}-controls.html#{service}-{number}"
