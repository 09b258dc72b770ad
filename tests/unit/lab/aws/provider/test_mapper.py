"""Properties become botocore parameters and are read back; nothing is dropped silently."""

from __future__ import annotations

import datetime as dt
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from gpufleet.lab.aws.provider import schema
from gpufleet.lab.aws.provider.mapper import (
    MappingError,
    Names,
    from_response,
    tag_list,
    tags_to_map,
    to_request,
)

SESSION = botocore.session.Session()


def shape(service: str, operation: str) -> Any:
    return SESSION.get_service_model(service).operation_model(operation).input_shape


def test_property_matches_its_parameter_in_any_case() -> None:
    made = to_request(shape("ec2", "CreateSubnet"), {"vpcId": "vpc-1", "ipv6CidrBlock": "::/64"})
    assert made == {"VpcId": "vpc-1", "Ipv6CidrBlock": "::/64"}
    lower = to_request(shape("eks", "CreateAddon"), {"clusterName": "c", "addonName": "vpc-cni"})
    assert lower == {"clusterName": "c", "addonName": "vpc-cni"}


def test_strings_are_converted_to_the_type_of_the_api() -> None:
    model = SESSION.get_service_model("ec2").shape_for("RequestLaunchTemplateData")
    made = to_request(
        model,
        {
            "ebsOptimized": "true",
            "blockDeviceMappings": [{"ebs": {"encrypted": "true", "volumeSize": "200", "iops": 3000}}],
        },
    )
    assert made == {
        "EbsOptimized": True,
        "BlockDeviceMappings": [{"Ebs": {"Encrypted": True, "VolumeSize": 200, "Iops": 3000}}],
    }
    assert not ParamValidator().validate(made, model).has_errors()


def test_property_without_a_parameter_is_an_error() -> None:
    with pytest.raises(MappingError, match="'nonsense' has no counterpart"):
        to_request(shape("ec2", "CreateSubnet"), {"vpcId": "vpc-1", "nonsense": 1})


def test_nested_property_without_a_parameter_is_named_with_its_path() -> None:
    model = SESSION.get_service_model("ec2").shape_for("RequestLaunchTemplateData")
    with pytest.raises(MappingError, match=r"'metadataOptions\.typo'"):
        to_request(model, {"metadataOptions": {"typo": "x"}})


def test_names_can_be_renamed_dropped_and_encoded() -> None:
    names = Names(rename={"a": "VpcId"}, drop={"b"}, encode={"cidrBlock": lambda text: f"{text}/16"})
    made = to_request(shape("ec2", "CreateSubnet"), {"a": "vpc-1", "b": 1, "cidrBlock": "10.0.0.0"}, names)
    assert made == {"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/16"}


def test_absent_values_and_engine_keys_are_not_sent() -> None:
    assert to_request(shape("ec2", "CreateSubnet"), {"vpcId": None, "__defaults": []}) == {}


def test_number_becomes_text_where_the_api_needs_it() -> None:
    made = to_request(shape("eks", "UpdateClusterVersion"), {"name": "c", "version": 1.33})
    assert made == {"name": "c", "version": "1.33"}


def test_description_is_returned_in_the_declared_types() -> None:
    outputs = schema.resource("aws:ec2/launchTemplate:LaunchTemplate").outputs
    kinds = {"ebsOptimized": outputs["ebsOptimized"], "blockDeviceMappings": outputs["blockDeviceMappings"]}
    data = {"EbsOptimized": True, "BlockDeviceMappings": [{"Ebs": {"Encrypted": False, "VolumeSize": 8}}]}
    assert from_response(kinds, data) == {
        "ebsOptimized": "true",
        "blockDeviceMappings": [{"ebs": {"encrypted": "false", "volumeSize": 8}}],
    }


def test_times_are_returned_as_rfc_3339_in_utc() -> None:
    moment = dt.datetime(2031, 5, 6, 9, 8, 7, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert from_response({"createDate": "string"}, {"CreateDate": moment}) == {
        "createDate": "2031-05-06T07:08:07Z"
    }


def test_field_that_aws_does_not_return_is_absent() -> None:
    assert from_response({"a": "string", "b": "string"}, {"A": None}) == {}


@pytest.mark.parametrize(
    "given",
    [
        [{"Key": "a", "Value": "1"}],
        [{"TagKey": "a", "TagValue": "1"}],
        {"a": "1"},
        [{"key": "a", "value": "1"}],
    ],
)
def test_every_tag_format_becomes_one_map(given: Any) -> None:
    assert tags_to_map(given) == {"a": "1"}


def test_tag_map_becomes_a_sorted_list() -> None:
    assert tag_list({"b": "2", "a": "1"}) == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
