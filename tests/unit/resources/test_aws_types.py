"""Data about pulumi_aws's types, derived from the installed version."""

from __future__ import annotations

import importlib.metadata

import pytest

from gpufleet.resources import aws_types, aws_types_build

INSTANCE = "aws:ec2/instance:Instance"


def test_data_matches_the_pinned_pulumi_aws() -> None:
    assert aws_types.DATA.read_text(encoding="utf-8") == aws_types_build.render(), (
        "run `python -m gpufleet.resources.aws_types_build`"
    )
    assert aws_types.version() == importlib.metadata.version("pulumi_aws")


def test_every_resource_class_of_pulumi_aws_is_included() -> None:
    classes = 0
    for path in aws_types_build.package().rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "(pulumi.CustomResource):" in text:
            classes += text.count("(pulumi.CustomResource):")
    known = len(aws_types_build.build()["types"])
    assert known == classes > 1500


@pytest.mark.parametrize(
    ("token", "shape"),
    [
        (INSTANCE, "map"),
        ("aws:s3/bucket:Bucket", "map"),
        ("aws:s3/bucketV2:BucketV2", "map"),
        ("aws:autoscaling/group:Group", "list"),
        ("aws:ec2/route:Route", None),
        # `tags` of this type select resources and are not its own tags.
        ("aws:devopsguru/resourceCollection:ResourceCollection", None),
        ("aws:costexplorer/costAllocationTag:CostAllocationTag", None),
        ("aws:ec2/instance:Inst", None),
        ("kubernetes:core/v1:Namespace", None),
    ],
)
def test_tag_support_of_each_type_is_known(token: str, shape: str | None) -> None:
    assert aws_types.taggable(token) == shape
    assert (token in aws_types.taggable_types()) == (shape is not None)


def test_types_are_matched_by_exact_name() -> None:
    assert aws_types.exists(INSTANCE)
    assert aws_types.exists("aws:s3/bucketV2:BucketV2")
    for wrong in ("aws:ec2/Instance:Instance", "aws:ec2/instance:instance", "aws:ec2/nothing:Nothing", ""):
        assert not aws_types.exists(wrong)


def test_renamed_type_is_found_by_its_old_name() -> None:
    assert aws_types.renamed("aws:s3/bucketV2:BucketV2") == "aws:s3/bucket:Bucket"
    assert aws_types.renamed("aws:s3/bucket:Bucket") is None
    assert aws_types.former("aws:s3/bucket:Bucket") == ("aws:s3/bucketV2:BucketV2",)
    assert aws_types.former("aws:s3/bucketV2:BucketV2") == ()


def test_other_ways_to_tag_are_known_by_type() -> None:
    assert aws_types.besides("aws:ec2/launchTemplate:LaunchTemplate") == ("tagSpecifications",)
    assert "copyTagsToBackups" in aws_types.besides("aws:fsx/lustreFileSystem:LustreFileSystem")
    # A property with "tag" inside a word is not a tag property.
    assert aws_types.besides("aws:apigateway/stage:Stage") == ()
    assert "aws:ec2/tag:Tag" in aws_types.single_tag_types()
    assert "aws:secretsmanager/tag:Tag" in aws_types.single_tag_types()
    assert INSTANCE not in aws_types.single_tag_types()


def test_unsupported_pulumi_aws_layout_is_an_error_and_not_an_empty_table() -> None:
    changed = '@pulumi.type_token("aws:ec2/x:X")\nclass X(pulumi.CustomResource):\n    pass\n'
    with pytest.raises(ValueError, match="aws:ec2/x:X"):
        list(aws_types_build.resources(changed))
