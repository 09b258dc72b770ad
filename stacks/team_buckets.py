"""What a team's pods reach in the site's buckets, by EKS Pod Identity, and mount of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pulumi

from gpufleet.components.bucket import Bucket
from gpufleet.components.bucket_volume import BucketFolderArgs
from gpufleet.components.cluster import EksCluster
from gpufleet.components.identity import PodRole, PodRoleArgs, TeamBucketArgs, team_bucket_statements
from gpufleet.kinds import TEAM_SERVICE_ACCOUNT, TEAMS_SHARED
from gpufleet.plan.marks import TAG_PREFIX
from gpufleet.plan.models import CloudSitePlan, TeamBucketPlan, TeamPlan
from gpufleet.plan.names import TEAM_DATA_SUFFIX, bucket_claims


def build_team_buckets(
    name: str,
    site: CloudSitePlan,
    cluster: EksCluster,
    buckets: Mapping[str, Bucket],
    opts: pulumi.ResourceOptions,
) -> None:
    """Give the service account of each team with buckets a role for its prefixes; `buckets` by name."""
    for team in site.kubernetes.teams if site.kubernetes is not None else ():
        if team.buckets:
            PodRole(
                f"{name}-{team.name}{TEAM_DATA_SUFFIX}",
                PodRoleArgs(
                    cluster_name=cluster.cluster_name,
                    namespace=team.name,
                    service_account=TEAM_SERVICE_ACCOUNT,
                    statements=team_bucket_statements(team.name, _buckets(team, buckets), site.region),
                    tags={**site.tags, f"{TAG_PREFIX}team": team.name},
                ),
                opts,
            )


def bucket_folders(team: TeamPlan, buckets: Mapping[str, Bucket]) -> list[BucketFolderArgs]:
    """Return what a team mounts of its buckets: its own folder, and read-only the one of all teams.

    These are two volumes, since the team's role may not list what is above them.
    """
    return [folder for each in team.buckets if each.mount for folder in _folders(team, each, buckets)]


def _folders(
    team: TeamPlan, bucket: TeamBucketPlan, buckets: Mapping[str, Bucket]
) -> Iterator[BucketFolderArgs]:
    own, shared = bucket_claims(bucket.storage)
    name = buckets[bucket.storage].bucket_name
    yield BucketFolderArgs(name=own, bucket=name, prefix=f"{team.name}/", write=bucket.write)
    yield BucketFolderArgs(name=shared, bucket=name, prefix=f"{TEAMS_SHARED}/", write=False)


def _buckets(team: TeamPlan, buckets: Mapping[str, Bucket]) -> list[TeamBucketArgs]:
    return [
        TeamBucketArgs(arn=buckets[each.storage].arn, key_arn=buckets[each.storage].key_arn, write=each.write)
        for each in team.buckets
    ]
