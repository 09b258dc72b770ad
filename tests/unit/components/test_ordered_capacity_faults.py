"""Orders under faults: scarce capacity, reclaimed nodes, throttling, and kills at any request.

After each run that was not killed, each group asks for exactly what it has, and the order has what its state
says: nothing is leaked, nothing is forgotten, and never are there more nodes than were asked for.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from moto.core.botocore_stubber import BotocoreStubber

from gpufleet.components import scaling_groups
from gpufleet.components.ordered_capacity import OrderProvider
from gpufleet.lab.aws.faults.plan import Shortage
from tests.unit.components.scaling_account import KIND, REGION, ScalingAccount, scaling_account

SEQUENCES = int(os.environ.get("GPUFLEET_TEST_SEQUENCES", "100"))
"""500 and more were run; each takes a quarter of a second of processor time."""
PER_ACCOUNT = 50
THROTTLED = (
    b"<ErrorResponse><Error><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>"
)


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Network:
    """Requests of the resource: throttled at random, done without an answer, and ended at one of them."""

    random: random.Random
    throttle: float = 0.0
    lost: float = 0.0
    kill_at: int | None = None
    sent: int = 0
    dead: bool = False
    withheld: bool = False

    def send(self, request: Any, **_: Any) -> AWSResponse | None:
        self.sent += 1
        self.dead = self.dead or self.sent == self.kill_at
        if self.dead:
            raise Killed
        self.withheld = self.random.random() < self.throttle
        if self.withheld or self.random.random() < self.lost:
            return AWSResponse(request.url, 400, {"content-type": "text/xml"}, _Raw(THROTTLED))
        return None


class _Raw:
    def __init__(self, body: bytes) -> None:
        self.body = body

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.body


@dataclass
class Sequence:
    """One order, its state, and what happens to it."""

    account: ScalingAccount
    network: Network
    random: random.Random
    names: list[list[str]]
    state: dict[str, Any] | None = None
    reported: list[str] = field(default_factory=list)

    @property
    def all_names(self) -> list[str]:
        return [name for place in self.names for name in place]

    def running(self) -> dict[str, int]:
        return {name: self.account.running()[name] for name in self.all_names}

    def limit(self) -> None:
        """Another capacity of each zone and market."""
        self.account.shortages = tuple(
            Shortage(
                type=KIND, left=self.random.choice((0, 1, 3, 5, 9)), zone=f"{REGION}{zone}", market=market
            )
            for zone in "ab"
            for market in ("spot", "on-demand")
        )
        self.reported.append(
            str([(each.left, each.zone[-1], each.market) for each in self.account.shortages])
        )

    def run(self, asked: dict[str, Any], *, kill: bool) -> None:
        """One `up`."""
        before, held = self.running(), dict((self.state or {}).get("obtained") or {})
        running = self.account.in_service()
        self.network.sent, self.network.dead = 0, False
        self.network.kill_at = self.random.randint(1, 25) if kill else None
        self.account.most_asked = 0
        provider = OrderProvider()
        nodes, least = int(asked["nodes"]), int(asked["at_least"])
        self.reported.append(
            f"{'create' if self.state is None else 'update'} {nodes}/{least} kill {self.network.kill_at}"
        )
        try:
            if self.state is None:
                self.state = provider.create(asked).outs
            else:
                self.state = provider.update("", self.state, asked).outs
        except Killed:
            self.reported.append(f"killed with {self.running()}")
            return
        except Exception as error:
            self.reported.append(str(error))
            if "nodes are asked for" not in str(error):
                raise
            # As before, except for what a killed run had left behind and what AWS took.
            kept = {name: min(count, running[name]) for name, count in held.items()}
            expected = {name: kept.get(name, 0) for name in self.all_names}
        else:
            expected = {name: self.state["obtained"].get(name, 0) for name in self.all_names}
            got = sum(expected.values())
            assert least <= got <= nodes and self.state["missing"] == nodes - got, self.reported
        asked_for = {name: self.account.asked()[name] for name in self.all_names}
        assert self.running() == asked_for == expected, (self.reported, before)
        assert self.account.most_asked <= max(nodes, sum(before.values())), self.reported


def play(account: ScalingAccount, network: Network, number: int) -> None:
    """One sequence, by its number."""
    chance = random.Random(number)
    account.random = network.random = chance
    names = []
    for place in range(chance.randint(1, 2)):
        names.append([f"s{number}-{place}-{each}" for each in range(chance.randint(1, 3))])
        for name in names[-1]:
            account.group(name, chance.choice(("a", "b", "ab")), spot=chance.random() < 0.4)
    network.throttle, network.lost = chance.choice(((0.0, 0.0), (0.1, 0.0), (0.0, 0.1), (0.05, 0.05)))
    sequence = Sequence(account, network, chance, names)
    for _ in range(chance.randint(1, 4)):
        sequence.limit()
        if sequence.state is not None and chance.random() < 0.5:
            for name in sequence.all_names:
                account.reclaim(name, chance.randint(0, 2))
        nodes = chance.randint(1, 8)
        asked = inputs(names, nodes, chance.choice((nodes, chance.randint(0, nodes))), chance)
        if chance.random() < 0.4:
            sequence.run(asked, kill=True)
            if chance.random() < 0.5:
                sequence.limit()
        sequence.run(asked, kill=False)
    for name in sequence.all_names:
        account.scaling.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)


def inputs(names: list[list[str]], nodes: int, least: int, chance: random.Random) -> dict[str, Any]:
    def source(name: str) -> Mapping[str, Any]:
        most = float(chance.choice((nodes, chance.randint(1, nodes))))
        return {"name": name, "resource": name, "group_name": name, "most": most, "block_id": None}

    return {
        "places": [[source(name) for name in place] for place in names],
        "nodes": float(nodes),
        "at_least": float(least),
        "region": REGION,
        "wait_s": 120.0,
        "client": {},
    }


@pytest.mark.parametrize("first", range(0, SEQUENCES, PER_ACCOUNT))
def test_nothing_is_leaked_or_forgotten(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(random.Random(first))
    open_client: Callable[..., Any] = scaling_groups.client
    opened: dict[str, Any] = {}

    def client(props: Mapping[str, Any], service: str) -> Any:
        if service not in opened:
            opened[service] = open_client(props, service)
            opened[service].meta.events.register_first("before-send.*", network.send)
        return opened[service]

    process = BotocoreStubber.process_request
    monkeypatch.setattr(scaling_groups, "client", client)
    # botocore calls all handlers: a request that was answered already would be done all the same.
    monkeypatch.setattr(
        BotocoreStubber, "process_request", lambda *words: None if network.withheld else process(*words)
    )
    with scaling_account(first) as account:
        for number in range(first, min(first + PER_ACCOUNT, SEQUENCES)):
            play(account, network, number)
