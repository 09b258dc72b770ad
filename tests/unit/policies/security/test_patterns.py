"""IAM's patterns: what they match, and the share of all names that they cover."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gpufleet.policies.rules.security._patterns import (
    WIDE,
    beyond,
    has_wildcard,
    kind_and_share,
    matches,
    measure,
    share,
    without_variables,
)

ACCOUNT = "123456789012"
STEMS = ("atlas-", "atlas-prod-", "atlas-prod-use1-")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("s3:get*", "s3:getobject", True),
        ("s3:?etobject", "s3:getobject", True),
        ("s3:?getobject", "s3:getobject", False),
        ("s3.get*", "s3:getobject", False),
        ("*object", "s3:getobject\nx", False),
        ("s3:*", "s3:get\nobject", True),
        ("s3:Get*", "s3:getobject", False),
    ],
)
def test_pattern_matches_the_whole_text(pattern: str, text: str, found: bool) -> None:
    assert matches(pattern, text) is found


@pytest.mark.parametrize(
    ("text", "found"), [("a*", True), ("a?", True), ("${aws:userid}", True), ("a$b", False), ("", False)]
)
def test_variable_is_a_wildcard(text: str, found: bool) -> None:
    assert has_wildcard(text) is found
    assert without_variables("a/${aws:PrincipalTag/x:y}/b") == "a/*/b"


@pytest.mark.parametrize(
    ("resource", "left"),
    [
        ("role/atlas-prod-*", "role/*"),
        ("role/atlas-*", "role/*"),
        ("role/atl*", "role/*"),
        ("role/atlas-prod-use1-nodes*", "role/nodes*"),
        ("role/*/atlas-nodes", "role/*/atlas-nodes"),
        ("role/atlas-nodes", "role/atlas-nodes"),
        ("role/other-*", "role/other-*"),
        ("role/a?las-*", "role/?las-*"),
    ],
)
def test_beginning_that_all_names_of_a_fleet_share_narrows_nothing(resource: str, left: str) -> None:
    start = f"arn:aws:iam::{ACCOUNT}:"
    assert beyond(f"{start}{resource}", STEMS) == f"{start}{left}"
    assert beyond(resource, STEMS) == resource


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("nodes", Fraction(0)),
        ("*", Fraction(1)),
        ("a*", WIDE),
        ("A?", WIDE),
        ("ab*", WIDE / 36),
        ("*a*", Fraction(20, 36)),
        ("*-*", Fraction(1)),
        ("*ab*", Fraction(20, 36**2)),
        ("*a*b", Fraction(20, 36) ** 2),
        ("${aws:userid}", Fraction(1)),
    ],
)
def test_share_is_what_the_letters_of_a_pattern_leave(name: str, part: Fraction) -> None:
    assert share(name) == part


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("*", ("", "", Fraction(1))),
        ("arn:aws:s3:*", ("", "", Fraction(1))),
        ("nodes", ("", "", Fraction(0))),
        ("arn:aws:s3", ("", "", Fraction(0))),
        ("arn:aws:s3:::", ("s3", "", Fraction(1))),
        ("arn:aws:dynamodb:us-east-1:1:table//a*", ("dynamodb", "table", WIDE)),
        ("arn:aws:s3:::*/secret", ("s3", "", Fraction(1))),
        ("arn:aws:s3:::a*/secret", ("s3", "", WIDE)),
        ("arn:aws:s3:us-east-1:1:accesspoint/a*", ("s3", "accesspoint", WIDE)),
        ("arn:aws:*:us-east-1:1:table/a*", ("", "table", WIDE)),
        ("arn:aws:ec2:us-east-1:1:*/*", ("ec2", "", Fraction(1))),
        ("arn:aws:ec2:us-east-1:1:instance/i-0*", ("ec2", "instance", Fraction(1))),
        ("arn:aws:ec2:us-east-1:1:instance/i-0a*", ("ec2", "instance", WIDE)),
        ("arn:aws:ec2:us-east-1:1:instance/i-", ("ec2", "instance", Fraction(1))),
        ("arn:aws:iam::1:instance/i-0*", ("iam", "instance", Fraction(1, 36**3))),
        ("arn:aws:sqs:us-east-1:1:a*", ("sqs", "", WIDE)),
        ("arn:aws:ec2:us-east-1:1:in*/a*", ("ec2", "", WIDE)),
        (
            "arn:aws:autoscaling:us-east-1:1:autoScalingGroup:*:autoScalingGroupName/a*",
            ("autoscaling", "autoscalinggroup", WIDE),
        ),
        ("arn:aws:logs:us-east-1:1:log-group:app", ("logs", "log-group", Fraction(0))),
    ],
)
def test_element_has_a_service_a_type_and_a_share(resource: str, expected: tuple[str, str, Fraction]) -> None:
    assert kind_and_share(resource) == expected


def test_shares_of_one_type_add_up_and_those_of_two_types_do_not() -> None:
    start = f"arn:aws:ec2:us-east-1:{ACCOUNT}"
    instances = [f"{start}:instance/i-0a*", f"{start}:instance/i-0b*"]
    assert measure(instances, "ec2") == 2 * WIDE
    assert measure([*instances, instances[0]], "ec2") == 2 * WIDE
    assert measure([*instances, f"{start}:volume/vol-0a*"], "ec2") == 2 * WIDE
    assert measure([*instances, "a*"], "ec2") == 3 * WIDE
    assert measure([*instances, f"{start}:instance/*"], "ec2") == 1
    assert measure([], "ec2") == 0


@pytest.mark.parametrize(
    ("service", "part"), [("ec2", WIDE), ("s3", Fraction(0)), ("ssm", WIDE), ("backup", WIDE)]
)
def test_element_of_another_service_counts_only_for_what_acts_on_others(service: str, part: Fraction) -> None:
    assert measure([f"arn:aws:ec2:us-east-1:{ACCOUNT}:instance/i-0a*"], service) == part
