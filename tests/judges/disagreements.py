"""Where checkov and our rules disagree, and who is right: docs/adr/0014-checkov.md in short.

Every entry must still apply to prod: an outdated one fails the test.
"""

from __future__ import annotations

ACCEPTED = {
    (
        "CKV_AWS_18",
        "aws_s3_bucket",
    ): "access logs of data sets: CloudTrail data events say more, where wanted",
    (
        "CKV_AWS_144",
        "aws_s3_bucket",
    ): "a copy in another region doubles the bill of data sets that can be had again",
    ("CKV2_AWS_62", "aws_s3_bucket"): "nothing listens: a notification without a receiver protects nothing",
    ("CKV_AWS_190", "aws_fsx_lustre_file_system.atlas-prod-usw2-scratch"): "FSx takes no key for scratch",
    ("CKV2_AWS_5", "aws_security_group.atlas-prod-use1-nodes"): "a group without members opens nothing",
    (
        "CKV_AWS_50",
        "aws_lambda_function",
    ): "it runs a few times a month, and its log says what it did",
    (
        "CKV_AWS_115",
        "aws_lambda_function",
    ): "one alert starts it once, and reserved runs are taken from others",
    ("CKV_AWS_116", "aws_lambda_function"): "a lost alert comes again with the next update of the budget",
    ("CKV_AWS_117", "aws_lambda_function"): "it calls AWS's APIs only, and has no address to be reached at",
    ("CKV_AWS_173", "aws_lambda_function"): "its settings are names of groups and of a budget, no secrets",
    ("CKV_AWS_272", "aws_lambda_function"): "its code is in the package, and its hash in the state",
    ("CKV2_AWS_34", "aws_ssm_parameter"): "names and sizes of groups are no secret",
}
"""(check id, Terraform type or address) -> why the finding is accepted."""


def accepted(check: str, address: str) -> tuple[str, str] | None:
    """The entry that covers a finding."""
    for key in ((check, address), (check, address.partition(".")[0])):
        if key in ACCEPTED:
            return key
    return None
