"""Hostile files and command lines from a seed: each has one error that a message can name.

A case is a command line with its files, in its own folder of a checkout.
"""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.unit.spec.samples import VALID

FLEET = VALID.encode()
ESC = "\x1b]0;owned\x07\x9b31m\u202e"
READERS = ("validate", "plan", "inventory", "check", "configure", "verify", "hostkeys")


@dataclass
class Case:
    """`arguments` may contain `{here}`, the folder of the case, which `make` fills."""

    name: str
    arguments: list[str]
    make: Callable[[Path], object] = lambda folder: None


def cases(seed: int) -> list[Case]:
    """All cases of a seed, always the same."""
    dice = random.Random(seed)
    made = [*_bytes(dice), *_values(dice), *_paths(dice), *_states(dice), *_options(dice), *_others(dice)]
    for number, case in enumerate(made):
        case.name = f"{number}: {case.name}"
    return made


def _reader(dice: random.Random, target: str) -> list[str]:
    verb = dice.choice(READERS)
    return [verb, target, *(["--check"] if verb == "configure" else [])]


def _file(name: str, data: bytes, dice: random.Random) -> Case:
    return Case(
        f"file: {name}",
        _reader(dice, "{here}/fleet.yaml"),
        lambda folder: (folder / "fleet.yaml").write_bytes(data),
    )


def _bytes(dice: random.Random) -> Iterator[Case]:
    """Contents that are not a fleet file."""
    bomb = b"a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + b"".join(
        b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)
    )
    merges = b"a0: &a0 {k: v}\n" + b"".join(
        b"a%d: &a%d {<<: [%s], k%d: v}\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9), n)
        for n in range(1, 12)
    )
    for name, data in {
        "empty": b"",
        "only a byte order mark": b"\xef\xbb\xbf",
        "utf-16": FLEET.decode().encode("utf-16"),
        "utf-16 without a mark": FLEET.decode().encode("utf-16-le"),
        "utf-32": FLEET.decode().encode("utf-32"),
        "latin-1": FLEET.replace(b"atlas", b"atl\xe4s"),
        "a NUL": FLEET.replace(b"atlas", b"at\0las"),
        "an escape sequence": FLEET.replace(b"atlas", ESC.encode()),
        "tabs": FLEET.replace(b"\n  ", b"\n\t"),
        "two megabytes": b"# " + b"x" * 2_000_000,
        "a megabyte of brackets": b"[" * 1_000_000,
        "deep mappings": b"".join(b" " * n + b"a:\n" for n in range(900)),
        "deep lists": b"- " * 5000,
        "deep flow mappings": b"{a: " * 5000,
        "aliases that grow": bomb,
        "merges that grow": merges,
        "an alias of itself": b"a: &a [*a]\n",
        "a merge of itself": b"a: &a {<<: *a}\n",
        "an alias of nothing": b"a: *nothing\n",
        "a Python tag": b"fleet: !!python/object/apply:os.system [touch owned]\n",
        "a binary tag": b"fleet: !!binary aGFsbG8=\n",
        "a tag of its own": b"fleet: !owned x\n",
        "two documents": FLEET + b"---\n" + FLEET,
        "a second key": FLEET + b"fleet: other\n",
        "a key that is a list": b"? [a, b]\n: c\n",
        "a list": b"- a\n",
        "a word": b"word\n",
        "JSON": json.dumps([1]).encode(),
        "a tarball": b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
        "an executable": b"\x7fELF\x02\x01\x01\0",
        "Jinja": b"{{ lookup('file', '/etc/passwd') }}\n",
        "an unclosed quote": b"fleet: 'x\n",
        "an unclosed bracket": b"fleet: [x\n",
        "a directive": b"%YAML 9.9\n---\na: b\n",
        "three thousand unknown keys": b"".join(b"k%d: v\n" % n for n in range(3_000)),
        "a key of a megabyte": b"k" * 900_000 + b": v\n",
        "ten thousand sites": b"cloud:\n" + b"- {site: a}\n" * 10_000,
    }.items():
        yield _file(name, data, dice)
    for number in range(25):
        start = dice.randrange(len(FLEET))
        noise = bytes(dice.randrange(256) for _ in range(40))
        yield _file(f"noise {number}", FLEET[:start] + b"\xff" + noise + FLEET[start:], dice)


# Invalid for every scalar of a fleet file.
_VALUES = {
    "a list of lists": "[[[]]]",
    "a mapping": "{a: {b: c}}",
    "digits": "9" * 100_000,
    "an escape sequence": '"\\e]0;owned\\a\\x9b31m"',
    "an override": '"\\u202Eevil\\u2066"',
    "a NUL": '"a\\0b"',
    "a half character": '"\\uD800"',
}


def _values(dice: random.Random) -> Iterator[Case]:
    """A fleet file with one invalid value."""
    places = [
        *("fleet: atlas", "environment: demo", "monthly: 1000 USD", "site: use1", "region: us-east-1"),
        *("cidr: 10.0.0.0/16", "name: serve", "min: 1", "max: 2", "mount: /fsx/scratch", "site: dc1"),
        *("capacity: 1200 GiB", "system: dgx-h100", "nodes: dgx[01-04]", "kind: infiniband", "speed: ndr"),
        *("per_rack: 40 kW", "pue: 1.25", "price: 0.11 USD/kWh", "channel: 2026.10"),
    ]
    for place in places:
        for name in dice.sample(list(_VALUES), 2):
            key = place.partition(":")[0]
            data = VALID.replace(place, f"{key}: {_VALUES[name]}", 1)
            yield _file(f"{place!r} is {name}", data.encode("utf-8"), dice)
    for place, value in (
        ("nodes: dgx[01-04]", "nodes: 'dgx[0-99999999999999999999]'"),
        ("nodes: dgx[01-04]", "nodes: '-oProxyCommand=id'"),
        ("nodes: dgx[01-04]", "nodes: 'dgx01;id'"),
        ("site: dc1", "site: ../../etc"),
        ("max: 2", "max: 1e400"),
        ("max: 2", "max: nan"),
        ("max: 2", "max: .inf"),
        ("max: 2", "max: -1"),
        ("max: 2", "max: 2026-01-01"),
        ("max: 2", "max: 0x10"),
        ("pue: 1.25", "pue: nan"),
        ("monthly: 1000 USD", "monthly: nan USD"),
        ("monthly: 1000 USD", "monthly: 1e999999999 USD"),
        ("monthly: 1000 USD", "monthly: -5 USD"),
        ("cidr: 10.0.0.0/16", "cidr: 10.0.0.0/99"),
        ("cidr: 10.0.0.0/16", "cidr: '::/0'"),
        ("fleet: atlas", "extends: 'a\\0b.yaml'\nfleet: atlas"),
        ("fleet: atlas", "extends: /etc/passwd\nfleet: atlas"),
        ("fleet: atlas", "extends: ../../../../../../../../etc/hosts.yaml\nfleet: atlas"),
        ("fleet: atlas", "extends: fleet.yaml\nfleet: atlas"),
        ("fleet: atlas", "extends: [a, b]\nfleet: atlas"),
        ("fleet: atlas", "extends: https://evil.example/x.yaml\nfleet: atlas"),
    ):
        yield _file(f"{value!r}"[:80], VALID.replace(place, value, 1).encode(), dice)


def _paths(dice: random.Random) -> Iterator[Case]:
    """Other file types in place of a fleet file, and invalid names."""

    def fifo(folder: Path) -> None:
        os.mkfifo(folder / "fleet.yaml")

    def listening(folder: Path) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            here = Path.cwd()
            os.chdir(folder)
            try:
                server.bind("fleet.yaml")
            finally:
                os.chdir(here)

    def linked(target: str) -> Callable[[Path], None]:
        return lambda folder: (folder / "fleet.yaml").symlink_to(target)

    for name, make in {
        "a folder": lambda folder: (folder / "fleet.yaml").mkdir(),
        "a pipe": fifo,
        "a socket": listening,
        "a link to itself": linked("fleet.yaml"),
        "a link to nothing": linked("nothing.yaml"),
        "a link to /etc/passwd": linked("/etc/passwd"),
        "a link to /dev/zero": linked("/dev/zero"),
        "a link to /proc/self/environ": linked("/proc/self/environ"),
        "a link to the folder": linked("."),
    }.items():
        yield Case(f"in the place of a file: {name}", _reader(dice, "{here}/fleet.yaml"), make)
    for target in (
        *(
            "",
            " ",
            ".",
            "..",
            "/",
            "~",
            "~root",
            "*",
            "sandbox/",
            "Sandbox",
            "sand box",
            "sandbox;id",
            "$(id)",
        ),
        *("/dev/zero", "/dev/null", "/dev/tty.yaml", "/proc/self/mem", "no.yaml", "no/fleet.yaml", "x" * 300),
        *("x" * 5000 + ".yaml", "a/" * 3000 + "f.yaml", ESC + ".yaml", ESC, "../../../../etc/passwd"),
        *("-", "--", "--no-such-option", "-oProxyCommand=id", "\udcff.yaml", "[bold]x[/bold]", "%s%n", "{0}"),
    ):
        yield Case(f"target {target[:40]!r}", _reader(dice, target))


def _states(dice: random.Random) -> Iterator[Case]:
    """Contents that are not a state."""
    resource = {"urn": "urn:pulumi:sandbox::gpufleet::a::b", "type": "a", "custom": True, "id": "i"}
    for name, text in {
        "empty": "",
        "no JSON": "{",
        "deep": "[" * 200_000,
        "a number of a thousand digits": "9" * 10_000,
        "another version": '{"version": 9}',
        "no deployment": '{"version": 3}',
        "a resource without type": json.dumps({"version": 3, "deployment": {"resources": [{"urn": "x"}]}}),
        "resources that are a mapping": '{"version": 3, "deployment": {"resources": {}}}',
        "inputs that are a list": json.dumps(
            {"version": 3, "deployment": {"resources": [{**resource, "inputs": []}]}}
        ),
        "a dependency on a number": json.dumps(
            {"version": 3, "deployment": {"resources": [{**resource, "dependencies": [7]}]}}
        ),
        "twice the same": json.dumps({"version": 3, "deployment": {"resources": [resource, resource]}}),
        "half a character": '{"version": 3, "deployment": {"resources": [], "x": "\\ud800"}}',
        "escape sequences": ESC,
        "NaN": '{"version": 3, "deployment": {"resources": [], "x": NaN}}',
    }.items():

        def make(folder: Path, text: str = text) -> None:
            (folder / "state.json").write_text(text, encoding="utf-8")

        yield Case(f"state: {name}", ["state", "import", "sandbox", "{here}/state.json", "--yes"], make)
    for file in ("/", "/dev/zero-not", "{here}", "{here}/none.json", "a\udcff", "x" * 5000):
        yield Case(f"state file {file[:40]!r}", ["state", "import", "sandbox", file, "--yes"])
    for words in (
        ["state", "list", "nowhere"],
        ["state", "show", "sandbox", ESC],
        ["state", "repair", "sandbox", "--adopt", "x"],
        ["state", "repair", "sandbox", "--adopt", "a=b", "--forget", "c"],
        ["state", "repair", "sandbox", "--from", "/dev/zero-not", "--yes"],
        ["state", "export", "sandbox", "--engine", "none"],
        ["state", "list", "sandbox", "--cloud", "gcp"],
    ):
        yield Case(" ".join(words)[:60], words)


def _options(dice: random.Random) -> Iterator[Case]:
    """Options with invalid values."""
    digits = "9" * 100_000
    for words in (
        ["up", "sandbox", "--parallel", digits],
        ["up", "sandbox", "--parallel", "-1"],
        ["up", "sandbox", "--parallel", "nan"],
        ["up", "sandbox", "--parallel"],
        ["up", "sandbox", "--cloud", ESC],
        ["up", "sandbox", "--engine", "[bold]"],
        ["up", "sandbox", "--policy-config", "/nowhere"],
        ["up", "sandbox", "--policy-config", "/", "--yes"],
        ["check", "dev", "--base", "--upload-pack=id"],
        ["check", "dev", "--base", ""],
        ["check", "dev", "--base", "x" * 5000],
        ["check", "dev", "--base", ESC],
        ["check", "dev", "--open", "no-such-ref"],
        ["check", "dev", "--format", "pdf"],
        ["check", "dev", "--jobs", "/"],
        ["check", "dev", "--policy-config", "/nowhere"],
        ["init", ""],
        ["init", "../../tmp/owned"],
        ["init", ESC],
        ["init", "x" * 300],
        ["init", "-x"],
        ["init", "dev"],
        ["init", "fresh", "--template", "none"],
        ["init", "fresh", "--fleet", "A B"],
        ["init", "fresh", "--region", "mars-1"],
        ["catalog", "instances", "--gpu", ESC],
        ["catalog", "instances", "--region", "us-eest-1"],
        ["catalog", "instances", "--min-gpus", digits],
        ["catalog", "instances", "--usage", "free"],
        ["catalog", "nothing"],
        ["rules", "no-such-rule"],
        ["rules", ESC],
        ["sandbox", "faults", "--fail", "ec2"],
        ["sandbox", "faults", "--fail", "ec2:CreateVpcs"],
        ["sandbox", "faults", "--slow", "ec2:CreateVpc=1.2.3"],
        ["sandbox", "faults", "--late", "nan"],
        ["sandbox", "faults", "--late", "-1"],
        ["sandbox", "faults", "--file", "/"],
        ["sandbox", "faults", "--file", "/dev/null"],
        ["sandbox", "faults", "--no-capacity", ":"],
        ["inventory", "dev", "-o", "/proc/none/inventory.yaml"],
        ["inventory", "dev", "-o", "/"],
        ["inventory", "dev", "-o", "/dev/null/x"],
        ["configure", "dev", "--site", "nowhere", "--check"],
        ["configure", "dev", "--only", "no-role", "--check"],
        ["configure", "dev", "--limit", "[", "--check"],
        ["configure", "dev", "--transport", "telnet", "--check"],
        ["configure", "dev", "--forks", "0", "--check"],
        ["configure", "dev", "--ssh-config", "/nowhere", "--check"],
        ["operate", "dev", "no-operation", "--check"],
        ["operate", "dev", "upgrade_driver", "-o", "x", "--check"],
        ["secrets", "new", "dev", "--rotate", "nothing"],
        ["comment", "dev", "/dev/zero"],
        ["comment", "dev", "/"],
        ["comment", ESC, "/dev/null"],
        ["comment", "dev", "/etc/passwd", "--pr", "0"],
        ["rack", "ssh", "no-host"],
        ["no-such-command"],
        [ESC],
        ["--no-such-option"],
        ["schema", "too", "many"],
    ):
        yield Case(" ".join(words)[:60], words)
    del dice


def _others(dice: random.Random) -> Iterator[Case]:
    """Invalid files beside the fleet file, and invalid settings."""
    for name, text in {
        "no YAML": "a: [",
        "deep": "[" * 10_000,
        "a Python tag": "exemptions: !!python/name:os.system x",
        "a list": "- a",
        "escape sequences": "exemptions: [{rule: '\x1b[31m'}]",
        "an exemption of nothing": "exemptions: [{}]",
    }.items():

        def beside(folder: Path, text: str = text) -> None:
            (folder / "fleet.yaml").write_bytes(FLEET)
            (folder / "exemptions.yaml").write_text(text, encoding="utf-8")

        yield Case(f"exemptions: {name}", ["check", "{here}/fleet.yaml"], beside)
    for name, text in {
        "no JSON": "{",
        "deep": "[" * 200_000,
        "a list": "[]",
        "no level": '{"a": "sometimes"}',
        "a number": '{"a": 1}',
        "no text": "\udcff",
    }.items():

        def config(folder: Path, text: str = text) -> None:
            (folder / "config.json").write_text(text, encoding="utf-8", errors="surrogateescape")

        verb = dice.choice(("check", "preview"))
        options = ["--cloud", "sandbox"] if verb == "preview" else []
        yield Case(
            f"policy configuration: {name}",
            [verb, "sandbox", *options, "--policy-config", "{here}/config.json"],
            config,
        )
    for name, text in {
        "no JSON": "{",
        "a list": "[]",
        "negative": '{"a": -1}',
        "deep": "[" * 200_000,
        "huge": '{"a": ' + "9" * 10_000 + "}",
    }.items():

        def jobs(folder: Path, text: str = text) -> None:
            (folder / "jobs.json").write_text(text, encoding="utf-8")

        yield Case(f"jobs: {name}", ["check", "sandbox", "--jobs", "{here}/jobs.json"], jobs)
