"""Tags by which a Cluster Autoscaler finds the Auto Scaling groups of EKS node groups.

EKS tags all of them for the autoscaler (`k8s.io/cluster-autoscaler/enabled`), also those whose size belongs
to something else, and does not pass on the tags of a node group. So the groups to scale get one more tag, by
which the autoscaler and its IAM role know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from gpufleet.kinds import AUTOSCALED_TAG


@dataclass(frozen=True, kw_only=True)
class AutoscaledArgs:
    """A node group whose size belongs to the Cluster Autoscaler of `cluster`.

    `labels` are further labels of nodes, and `tags` tags of the EKS node group, that say what its nodes have
    (kubernetes/autoscaler, AWS: "When scaling up from 0 nodes"). `scaling_tags` are those of the Auto Scaling
    group besides `gpufleet:autoscaler`.
    """

    cluster: pulumi.Input[str]
    labels: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    scaling_tags: Mapping[str, str] = field(default_factory=dict)


def tag_scaling_group(
    label: str, scaling_group: pulumi.Input[str], args: AutoscaledArgs, opts: pulumi.ResourceOptions
) -> None:
    """Tag the Auto Scaling group of the node group `label`."""
    tags: dict[str, pulumi.Input[str]] = {AUTOSCALED_TAG: args.cluster, **args.scaling_tags}
    for key, value in tags.items():
        aws.autoscaling.Tag(
            f"{label}-{key.rpartition('/')[2].rpartition(':')[2]}",
            autoscaling_group_name=scaling_group,
            tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
            opts=opts,
        )
