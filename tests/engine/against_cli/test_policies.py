"""The same policy packs on the embedded engine and on the real Pulumi CLI: equal requests, equal verdicts.

Runs where `pulumi` is on PATH (it is in no package registry, so no test set-up can bring it).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.engine.api import PolicyEvent, RunResult

from ..conftest import Lab
from ..packs import RECORDER, write_pack
from .comparing import comparable, needs_cli, normal, planned

pytestmark = needs_cli

Pair = tuple[Lab, Lab]


@pytest.fixture
def pair(cli: Lab, tmp_path: Path) -> Pair:
    """A laboratory on the embedded engine and one on the CLI."""
    return Lab(tmp_path / "embedded"), cli


def violations(result: RunResult) -> list[tuple[str, ...]]:
    """Parts of a violation that both engines report."""

    def key(event: PolicyEvent) -> tuple[str, ...]:
        return (event.pack, event.version, event.policy, event.enforcement, event.urn, event.message)

    return sorted(map(key, result.violations))


QUESTIONS = """
cfg = pulumi.Config()
south = BoxProvider("south", cfg.require_secret("password"))
g = Group("g", props={{"note": "hello", "nothing": None}})
inner = Box("inner", {{"size": 1, "list": [1, 2.5, "x", None, True], "box": south}}, Opts(parent=g))
g.register_outputs({{"inner": inner.arn}})
a = Box("a", {{"size": {size}, "zone": "{zone}", "password": cfg.require_secret("password")}},
        Opts(provider=south, protect=False, ignore_changes=["note"], delete_before_replace=True,
             custom_timeouts=pulumi.CustomTimeouts(create="1h30m", delete="90s")))
b = Box("b", {{"of": a.arn, "nested": {{"deep": {{"arn": inner.arn}}}}, "token": "t", "__mine": "x"}},
        Opts(additional_secret_outputs=["arn"], depends_on=[inner]))
Box("{name}", {{"box": a}}, Opts(aliases=[pulumi.Alias(name="old")]))
Box("n", {{"size": 1}}, kind="Named")
pulumi.export("arn", b.arn)
pulumi.export("password", cfg.require_secret("password"))
"""


def test_both_engines_send_a_pack_the_same_requests(pair: Pair, tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "pack", RECORDER)
    config = tmp_path / "config.json"
    config.write_text('{"all": "advisory", "two": {"enforcementLevel": "mandatory", "note": "n"}}')
    steps = [
        ("preview", {"size": 1, "zone": "x", "name": "old"}),
        ("up", {"size": 1, "zone": "x", "name": "old"}),
        ("up", {"size": 2, "zone": "x", "name": "new"}),
        ("up", {"size": 2, "zone": "y", "name": "new"}),
    ]
    for number, (verb, values) in enumerate(steps):
        asked, results = [], []
        for lab in pair:
            record = lab.folder / "record.jsonl"
            lab.configure(
                policy_packs=(pack,),
                policy_config={pack: config},
                config={"lab:password": "hunter2", "box:region": "north"},
                secret_config=frozenset({"lab:password"}),
                env={**lab.request.env, "RECORD": str(record)},
            )
            result = lab.program(QUESTIONS.format(**values)).run(verb)
            assert result.ok, result
            results.append(result)
            asked.append(_questions(record))
            record.unlink()
        assert violations(results[0]) == violations(results[1])
        assert {event.message for event in results[0].violations} == {"the recorder cannot remediate it"}
        mine, theirs = asked
        assert [line["call"] for line in mine] == [line["call"] for line in theirs], number
        for ours, other in zip(mine, theirs, strict=True):
            assert ours == other, (number, ours["call"])
        assert {line["call"] for line in mine} == {
            "ConfigureStack", "Configure", "Remediate", "Analyze", "AnalyzeStack",
        }  # fmt: skip
    for lab in pair:
        assert lab.resources()["inner"]["inputs"]["mended"] is True
    assert comparable(pair[0].export()) == comparable(pair[1].export())
    mine_at, theirs_at = (_processes(lab.folder / "record.jsonl.env") for lab in pair)
    assert mine_at == theirs_at
    assert mine_at[0]["cwd"] == str(pack)


def _processes(record: Path) -> list[dict[str, Any]]:
    """Working folder and environment of each process of a pack."""
    found = [json.loads(line) for line in record.read_text().splitlines()]
    return [{**item, "CONFIG": json.loads(item["CONFIG"])} for item in found]


def _questions(record: Path) -> list[dict[str, Any]]:
    """Requests to a pack, in an order that does not depend on timing."""
    lines = [normal(json.loads(line)) for line in record.read_text().splitlines()]
    for line in lines:
        data = line["data"]
        for urns in [data.get("dependencies", []), *(
            item["urns"] for item in data.get("propertyDependencies", {}).values()
        )]:  # fmt: skip
            urns.sort()
    return sorted(lines, key=lambda line: (line["dry"], line["call"], line["data"].get("urn", "")))


JUDGES = """
def too_big(args, report):
    if args.resource_type == "box:index:Box" and args.props.get("size", 0) > 5:
        report(f"size {args.props['size']} is above 5")
        report("and once more", "urn:pulumi:dev::lab::box:index:Box::elsewhere")

def tag(args):
    if args.resource_type == "box:index:Box" and "team" not in args.props:
        # So that the secret stays one: a copy would drop the mark, and the CLI write it in the clear.
        args.props["team"] = "ml"
        return args.props

def untagged(args, report):
    if args.resource_type == "box:index:Box" and "team" not in args.props:
        report("no team")

def needs_arn(args, report):
    if args.resource_type == "box:index:Box" and "of" in args.props and args.props["of"].startswith("x"):
        report("never")

def too_many(args, report):
    found = boxes(args)
    if len(found) > args.get_config().get("limit", 2):
        report(f"{len(found)} boxes")
        report("this one", found[0].urn if found[0].name == "a" else
               next(box.urn for box in found if box.name == "a"))
        report("nowhere", "urn:pulumi:dev::lab::box:index:Box::gone")

def leaks(args, report):
    for box in boxes(args):
        if box.name == "a":
            report(f"{box.props['size']} {sorted(box.props['arn'] and box.props.keys())}")

PolicyPack("judges", [
    rule("small", too_big, severity=Severity.HIGH),
    rule("tagged", untagged, EnforcementLevel.REMEDIATE, tag),
    rule("unknown", needs_arn),
    stack_rule("few", too_many, EnforcementLevel.REMEDIATE, severity=Severity.LOW,
               config_schema=PolicyConfigSchema({"limit": {"type": "integer", "default": 2}})),
    stack_rule("outputs", leaks, EnforcementLevel.ADVISORY),
    rule("off", lambda args, report: report("never"), EnforcementLevel.DISABLED),
], enforcement_level=EnforcementLevel.ADVISORY)
"""
SECOND = """
def shout(args):
    if args.props.get("team") == "ml":
        return {**args.props, "team": "ML"}

PolicyPack("second", [
    rule("loud", lambda args, report: report("quiet") if args.props.get("team") == "ml" else None,
         EnforcementLevel.REMEDIATE, shout),
    rule("hint", lambda args, report: report("a hint") if "size" in args.props else None,
         EnforcementLevel.ADVISORY),
])
"""
BOXES = """
a = Box("a", {{"size": {size}, "password": pulumi.Output.secret("s3cret")}})
b = Box("b", {{"of": a.arn, "team": "infra"}})
{more}
"""


@pytest.mark.parametrize(
    ("text", "config", "ok", "policies"),
    [
        (BOXES.format(size=1, more=""), {}, True, {"unknown", "outputs"}),
        (BOXES.format(size=9, more=""), {}, False, {"small"}),
        (BOXES.format(size=1, more='Box("c")\nBox("d")'), {}, False, {"few"}),
        (BOXES.format(size=1, more='Box("c")\nBox("d")'), {"few": {"limit": 4}}, True, set()),
        (BOXES.format(size=9, more=""), {"small": "advisory", "off": "disabled"}, True, {"small"}),
        (BOXES.format(size=9, more=""), {"all": "disabled"}, True, set()),
        (BOXES.format(size=1, more=""), {"all": "mandatory"}, False, {"off", "tagged"}),
    ],
    ids=["clean", "resource", "stack", "configured", "lowered", "all off", "all mandatory"],
)
def test_both_engines_give_the_same_verdict(
    pair: Pair, tmp_path: Path, text: str, config: dict[str, Any], ok: bool, policies: set[str]
) -> None:
    judges = write_pack(tmp_path / "judges", JUDGES)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    for lab in pair:
        lab.configure(policy_packs=(judges,)).program(text)
        if config:
            lab.configure(policy_config={judges: file})
    for verb in ("preview", "up"):
        mine, theirs = (lab.run(verb) for lab in pair)
        assert (mine.ok, theirs.ok) == (ok, ok), (verb, mine, theirs)
        assert violations(mine) == violations(theirs), verb
        assert planned(mine) == planned(theirs), verb
        assert mine.changes == theirs.changes, verb
        if verb == "preview":
            assert policies <= {event.policy for event in mine.violations}
            assert not ({"off"} & {event.policy for event in mine.violations} - policies)
        ours, other = pair
        assert ours.names() == other.names()
        if not ok:
            assert ours.names() == []
        elif verb == "up":
            assert comparable(ours.export()) == comparable(other.export()), verb


def test_packs_remediate_and_then_judge_in_the_same_order(pair: Pair, tmp_path: Path) -> None:
    # The CLI uses packs in the order in which they start, so the two must not depend on it.
    packs = (write_pack(tmp_path / "judges", JUDGES), write_pack(tmp_path / "second", SECOND))
    results = [
        lab.configure(policy_packs=packs).program('Box("b", {"team": "ml"})\n').run("up") for lab in pair
    ]
    assert all(result.ok for result in results), results
    assert violations(results[0]) == violations(results[1])
    for lab in pair:
        assert lab.resources()["b"]["inputs"]["team"] == "ML"


def test_both_engines_refuse_an_invalid_policy_configuration(pair: Pair, tmp_path: Path) -> None:
    judges = write_pack(tmp_path / "judges", JUDGES)
    file = tmp_path / "config.json"
    file.write_text('{"few": {"limit": "many"}}')
    for lab in pair:
        lab.configure(policy_packs=(judges,), policy_config={judges: file}).program('Box("a")\n')
        try:
            result = lab.run("preview")
        except Exception as error:
            assert "few" in str(error)
            assert "limit" in str(error)
        else:
            assert not result.ok
            assert "few: limit: Invalid type" in lab.messages("error")
        assert lab.names() == []
