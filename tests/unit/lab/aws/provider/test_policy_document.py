"""getPolicyDocument builds the same documents as the real provider."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpufleet.errors import InputError
from gpufleet.lab.aws.provider.invokes.policy_document import get_policy_document


def build(**arguments: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(get_policy_document(None, arguments)["json"])  # type: ignore[arg-type]
    return result


def test_single_value_is_a_string_and_several_are_a_list() -> None:
    document = build(statements=[{"actions": ["s3:Get*"], "resources": ["a", "b"]}])
    assert document == {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:Get*", "Resource": ["b", "a"]}],
    }


def test_principals_are_grouped_by_type() -> None:
    principals = [
        {"type": "Service", "identifiers": ["ec2.amazonaws.com"]},
        {"type": "AWS", "identifiers": ["arn:aws:iam::123456789012:root"]},
        {"type": "Service", "identifiers": ["eks.amazonaws.com"]},
    ]
    (statement,) = build(statements=[{"actions": ["sts:AssumeRole"], "principals": principals}])["Statement"]
    assert statement["Principal"] == {
        "AWS": "arn:aws:iam::123456789012:root",
        "Service": ["eks.amazonaws.com", "ec2.amazonaws.com"],
    }


def test_everyone_is_an_asterisk() -> None:
    (statement,) = build(statements=[{"principals": [{"type": "*", "identifiers": ["*"]}]}])["Statement"]
    assert statement["Principal"] == "*"


def test_conditions_are_nested_by_test_and_variable() -> None:
    conditions = [
        {"test": "StringEquals", "variable": "aws:SourceAccount", "values": ["1"]},
        {"test": "StringLike", "variable": "aws:SourceArn", "values": ["a", "b"]},
        {"test": "StringEquals", "variable": "sts:ExternalId", "values": ["x"]},
    ]
    (statement,) = build(statements=[{"actions": ["a"], "conditions": conditions}])["Statement"]
    assert statement["Condition"] == {
        "StringEquals": {"aws:SourceAccount": "1", "sts:ExternalId": "x"},
        "StringLike": {"aws:SourceArn": ["a", "b"]},
    }


def test_effect_sid_and_negated_elements_are_kept() -> None:
    (statement,) = build(
        statements=[{"sid": "No", "effect": "Deny", "notActions": ["a"], "notResources": ["r"]}]
    )["Statement"]
    assert statement == {"Sid": "No", "Effect": "Deny", "NotAction": "a", "NotResource": "r"}


def test_override_replaces_the_statement_with_its_sid() -> None:
    override = json.dumps({"Statement": [{"Sid": "One", "Effect": "Deny", "Action": "x"}]})
    document = build(
        statements=[{"sid": "One", "actions": ["a"]}, {"sid": "Two", "actions": ["b"]}],
        overridePolicyDocuments=[override],
    )
    assert [statement["Sid"] for statement in document["Statement"]] == ["One", "Two"]
    assert document["Statement"][0] == {"Sid": "One", "Effect": "Deny", "Action": "x"}


def test_sources_come_first_and_must_not_share_a_sid() -> None:
    source = json.dumps({"Statement": {"Sid": "One", "Effect": "Allow", "Action": "a"}})
    document = build(sourcePolicyDocuments=[source], statements=[{"sid": "Two", "actions": ["b"]}])
    assert [statement["Sid"] for statement in document["Statement"]] == ["One", "Two"]
    with pytest.raises(InputError, match="'One'"):
        build(sourcePolicyDocuments=[source, source])


def test_document_that_is_not_json_is_refused() -> None:
    with pytest.raises(InputError, match="not a JSON document"):
        build(sourcePolicyDocuments=["{"])


def test_same_arguments_give_the_same_id() -> None:
    one = get_policy_document(None, {"statements": [{"actions": ["a"]}]})  # type: ignore[arg-type]
    two = get_policy_document(None, {"statements": [{"actions": ["a"]}]})  # type: ignore[arg-type]
    assert one == two
    assert json.loads(one["minifiedJson"]) == json.loads(one["json"])
