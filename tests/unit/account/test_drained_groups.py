"""Node groups whose spot nodes drain start again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from msgspec import structs

from gpufleet.account.drained_groups import Drain
from gpufleet.account.stopped_groups import StoppedGroups
from gpufleet.components.functions.stop_scale_out import stop
from gpufleet.errors import CloudError
from gpufleet.notices.events import read_notice
from gpufleet.plan import build_plan
from gpufleet.plan.interruptions import InterruptionsPlan
from gpufleet.plan.models import FleetPlan
from tests.unit.components.functions.test_drain_spot import (
    ACCOUNT,
    HOME,
    NOW,
    PATH,
    SINCE,
    USE1,
    USW2,
    WEST,
    Account,
    SpotAccount,
    refusal,
)
from tests.unit.plan.fleets import CATALOG, cloud_site, group, spec, spot
from tests.unit.stacks.moto_mocks import emulated_aws

CHEAP, SWEEP = "atlas-prod-use1-cheap", "atlas-prod-usw2-sweep"


def plan(**changes: Any) -> FleetPlan:
    """The environment prod with the spot groups of the account, and other limits for one of them."""
    kube = cloud_site(
        group("cheap", "g6.xlarge", spot(1, 8)),
        scheduler="kubernetes",
        kubernetes={"private_cidrs": ["10.60.0.0/24"]},
        interruptions={},
    )
    west = {"site": "usw2", "region": WEST, "zones": ["us-west-2a"], "interruptions": {}}
    slurm = cloud_site(group("sweep", "g6.xlarge", spot(2, 4)), **west)
    budget = {"monthly": "1000 USD", "on_breach": "drain-spot"}
    return build_plan(spec(cloud=[kube, slurm], environment="prod", budget=budget, **changes), CATALOG)


class Named(SpotAccount):
    """The account with the names that gpufleet gives its groups."""

    names = MappingProxyType({"cheap": CHEAP, "sweep": SWEEP})
    drains: Mapping[str, Any] = {**SpotAccount.drains, "budgets": {"atlas-prod-budget": [CHEAP, SWEEP]}}
    settings: Mapping[str, Any] = {**Account.settings, "budgets": {"atlas-prod-budget": [CHEAP, SWEEP]}}


@pytest.fixture
def account() -> Iterator[Named]:
    with emulated_aws():
        yield Named()


def groups(account: Named) -> StoppedGroups:
    return StoppedGroups(plan(), ACCOUNT, account.client)


def end_nodes(account: Named) -> None:
    """What the handler does in the end."""
    for name, region in (("cheap", HOME), ("sweep", WEST)):
        for instance in account.instances(name):
            account.client("autoscaling", region).terminate_instance_in_auto_scaling_group(
                InstanceId=instance, ShouldDecrementDesiredCapacity=True
            )


def test_drain_is_shown_with_the_nodes_that_are_left(account: Named) -> None:
    account.spend("1200")
    assert groups(account).breach().drained == {}
    account.run()
    assert groups(account).breach().drained == {
        CHEAP: Drain(SINCE, (1, 3, 8), 3),
        SWEEP: Drain(SINCE, (1, 2, 5), 2),
    }
    end_nodes(account)
    left = groups(account).breach()
    assert {name: drain.nodes for name, drain in left.drained.items()} == {CHEAP: 0, SWEEP: 0}
    assert left.acts


def test_drained_groups_get_their_size_and_the_limits_of_the_plan_and_launch_again(account: Named) -> None:
    account.spend("1200")
    stop(account.settings, account.topic, account.client, NOW)
    account.run()
    end_nodes(account)
    breach = groups(account).breach()
    # The maxima from before the stop, which came first, and the size from before the drain.
    assert breach.before == {CHEAP: 8, SWEEP: 5}
    done = groups(account).resume(breach)
    assert done == {CHEAP: 8, SWEEP: 4}
    sizes = account.sizes()
    assert (sizes["cheap"], sizes["sweep"]) == ((1, 3, 8), (2, 2, 4))
    assert account.launches("cheap") and account.launches("sweep")
    assert len(account.instances("sweep")) == 2
    assert account.record("cheap") == account.record("sweep") == account.remembered() == {}
    assert not groups(account).breach().acts
    # Spent again: the sizes of now count.
    account.run()
    assert account.record("sweep")["sizes"] == [2, 2, 4]


def test_nodes_that_still_drain_are_called_off(account: Named) -> None:
    account.spend("1200")
    account.run()
    account.notices(HOME, USE1)
    groups(account).resume(groups(account).breach())
    sent = account.notices(HOME, USE1)
    assert {each["detail"]["instance-id"] for each in sent} == account.instances("cheap")
    for each in sent:
        read = read_notice(json.dumps(each), account=ACCOUNT, region=HOME, now=NOW.timestamp())
        assert (read.kind, read.withdrawn) == ("budget", True)


def test_sites_of_one_region_get_the_withdrawals_of_their_own_nodes(account: Named) -> None:
    of = plan()
    far = structs.replace(
        of.cloud[1],
        site="far",
        interruptions=InterruptionsPlan("far-notices", "cordon", 90, 3600),
    )
    account.client("sqs", WEST).create_queue(QueueName="far-notices")
    account.tag_site("sweep", "usw2")
    account.spend("1200")
    account.run()
    account.notices(WEST, USW2)
    both = StoppedGroups(structs.replace(of, cloud=(of.cloud[0], far, of.cloud[1])), ACCOUNT, account.client)
    both.resume(both.breach())
    assert len(account.notices(WEST, USW2)) == 2
    assert account.notices(WEST, "far-notices") == []


def test_resume_that_fails_halfway_is_shown_can_be_repeated_and_a_breach_meanwhile_drains_again(
    account: Named,
) -> None:
    account.spend("1200")
    account.run()
    breach = groups(account).breach()
    account.failing = {"update_nodegroup_config": refusal("ThrottlingException", "Rate exceeded")}
    with pytest.raises(CloudError, match="Rate exceeded"):
        groups(account).resume(breach)
    assert groups(account).breach().drained[SWEEP] == Drain("", (1, 2, 5), 2)
    account.failing = {}
    again = account.run()
    assert again["drained"].keys() == {CHEAP, SWEEP}
    assert account.record("cheap") == {"since": SINCE, "sizes": [1, 3, 8]}
    groups(account).resume(groups(account).breach())
    assert account.record("cheap") == account.record("sweep") == {}
    assert account.sizes()["cheap"] == (1, 3, 8)


def test_group_that_is_gone_is_left_out_and_forgotten(account: Named) -> None:
    account.spend("1200")
    account.run()
    account.client("autoscaling", WEST).delete_auto_scaling_group(
        AutoScalingGroupName="sweep-1234567", ForceDelete=True
    )
    breach = groups(account).breach()
    assert breach.drained[SWEEP].nodes == 0
    assert groups(account).resume(breach) == {CHEAP: 8}
    assert account.record("sweep") == {}


def test_site_whose_queue_is_gone_starts_again(account: Named) -> None:
    account.spend("1200")
    account.run()
    sqs = account.client("sqs", WEST)
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=USW2)["QueueUrl"])
    account.notices(HOME, USE1)
    assert groups(account).resume(groups(account).breach()).keys() == {CHEAP, SWEEP}
    assert len(account.notices(HOME, USE1)) == 3


def test_other_environments_have_no_records(account: Named) -> None:
    account.client("ssm", HOME).put_parameter(
        Name=f"{PATH.replace('prod', 'dev')}/x", Value=json.dumps({"since": SINCE}), Type="String"
    )
    assert groups(account).breach().drained == {}
