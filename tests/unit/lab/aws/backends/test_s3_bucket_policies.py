"""Bucket policies with conditions that the sandbox always meets, or never."""

from __future__ import annotations

import json
from typing import Any

import pytest

ACCOUNT = "123456789012"
DENY = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": ["arn:aws:s3:::guarded/*"]}


@pytest.mark.parametrize(
    ("condition", "denied"),
    [
        ({"Bool": {"aws:SecureTransport": "false"}}, False),
        ({"Bool": {"aws:SecureTransport": "true"}}, True),
        ({"StringNotEquals": {"aws:PrincipalAccount": ACCOUNT}}, False),
        ({"StringNotEquals": {"aws:PrincipalAccount": "999999999999"}}, True),
        ({"StringEquals": {"aws:PrincipalAccount": [ACCOUNT]}}, True),
        ({"StringNotEquals": {"aws:PrincipalTag/team": "ml"}}, True),
        (None, True),
    ],
)
def test_statement_applies_if_its_condition_holds(
    aws: Any, refused: Any, condition: Any, denied: bool
) -> None:
    s3 = aws("s3")
    s3.create_bucket(Bucket="guarded")
    statement = {**DENY, "Condition": condition} if condition else DENY
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    s3.put_bucket_policy(Bucket="guarded", Policy=policy)
    try:
        if denied:
            with refused("403"):
                s3.head_object(Bucket="guarded", Key="state")
            with refused("403"):
                s3.put_object(Bucket="guarded", Key="state", Body=b"{}")
        else:
            s3.put_object(Bucket="guarded", Key="state", Body=b"{}")
            assert s3.get_object(Bucket="guarded", Key="state")["Body"].read() == b"{}"
    finally:
        s3.delete_bucket_policy(Bucket="guarded")
        s3.delete_object(Bucket="guarded", Key="state")
        s3.delete_bucket(Bucket="guarded")
