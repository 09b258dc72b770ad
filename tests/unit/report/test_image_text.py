"""What `plan` says of images, drives, add-ons and the buckets of teams."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gpufleet.plan.models import CloudSitePlan, FleetPlan, TeamBucketPlan
from gpufleet.report.image_text import print_images

Printed = Callable[..., list[str]]


@pytest.fixture
def eks(plan: FleetPlan) -> CloudSitePlan:
    return plan.cloud[0]


def row(lines: list[str], name: str) -> str:
    (found,) = [line for line in lines if line.startswith(f" {name}")]
    return found


def test_driver_cuda_nccl_and_efa_of_each_group_are_shown(eks: CloudSitePlan, text: Printed) -> None:
    lines = text(print_images, eks, width=170)
    pretrain = row(lines, "pretrain").split()
    assert pretrain[1:4] == ["al2023-x86_64-nvidia-1.35", "1.35.6-20260714", "580.159.03"]
    assert row(lines, "pretrain").count("in containers") == 2
    assert "kernel module 3.1.0" in row(lines, "pretrain")
    assert "8 x 3,800 GB" in row(lines, "pretrain")
    assert row(lines, "serve, sweep")


def test_unread_figures_are_unknown_and_those_of_a_sister_image_marked(
    plan: FleetPlan, text: Printed
) -> None:
    lines = text(print_images, plan.cloud[1], width=170)
    burst = row(lines, "burst")
    assert "580.126.09*" in burst
    assert burst.count("unknown") == 3
    assert "at /scratch" in burst
    assert any("'*' not read in AWS's notes of this image" in line for line in lines)


def test_versions_of_an_image_of_the_users_own_are_unknown(eks: CloudSitePlan, text: Printed) -> None:
    own = replace(eks.node_groups[0], image="ami-1", image_kind="ami-id", image_release="", software=None)
    found = row(text(print_images, replace(eks, node_groups=(own,)), width=170), own.name)
    assert "your own" in found
    assert found.count("unknown") == 4


def test_add_ons_have_their_versions_and_those_without_a_source_of_aws_a_mark(
    eks: CloudSitePlan, text: Printed
) -> None:
    printed = " ".join(text(print_images, eks, width=170))
    assert "vpc-cni v1.21.1-eksbuild.7," in printed
    assert "eks-pod-identity-agent v1.3.10-eksbuild.3*" in printed
    assert "system nodes 1.35.6-20260714" in printed


def test_buckets_of_a_team_are_listed_with_their_access(eks: CloudSitePlan, text: Printed) -> None:
    assert not any("pods of" in line for line in text(print_images, eks))
    assert eks.kubernetes is not None
    buckets = (TeamBucketPlan("datasets", True), TeamBucketPlan("artifacts", False))
    team = replace(eks.kubernetes.teams[0], buckets=buckets)
    cluster = replace(eks.kubernetes, teams=(team,))
    lines = text(print_images, replace(eks, kubernetes=cluster), width=170)
    assert "  pods of research reach datasets (read-write), artifacts (read)" in lines
    mounted = replace(team, buckets=tuple(replace(each, mount=True) for each in buckets))
    cluster = replace(eks.kubernetes, teams=(mounted,))
    lines = text(print_images, replace(eks, kubernetes=cluster), width=170)
    assert "  pods of research reach datasets (read-write, mounted), artifacts (read, mounted)" in lines
