"""Policy packs on the embedded engine: verdicts, remediations, and stopped runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gpufleet.engine.api import PolicyEvent, RemediationEvent, ResourceEvent

from .conftest import Lab
from .packs import STANDARD, processes_of, write_pack

URN = "urn:pulumi:dev::lab::box:index:Box::"
ROOT = "urn:pulumi:dev::lab::pulumi:pulumi:Stack::lab-dev"


def reported(lab: Lab) -> list[tuple[str, str, str, str]]:
    """Each violation of the last run: policy, level, name, message without the description."""
    return sorted(
        (e.policy, e.enforcement, e.urn.rsplit("::", 1)[-1], e.message.split("\n", 1)[-1])
        for e in lab.events
        if isinstance(e, PolicyEvent)
    )


# -- violations


def test_preview_collects_every_violation_and_still_shows_all_steps(lab: Lab, pack: Path) -> None:
    write_pack(pack, STANDARD)
    lab.program('[Box(name, {"size": 9}) for name in "abcd"]\n')
    result = lab.run("preview")
    assert not result.ok
    assert result.failures == ()
    small = [("small", "mandatory", name, "size 9.0 is above 5") for name in "abcd"]
    assert reported(lab) == [("few", "mandatory", "lab-dev", "4 boxes are above 3"), *small]
    assert result.changes.create == 5
    assert lab.names() == []
    assert processes_of(pack) == []


def test_mandatory_violation_stops_up_before_the_first_change(lab: Lab, pack: Path) -> None:
    write_pack(pack, STANDARD)
    lab.program('Box("fine", {"size": 1})\nBox("big", {"size": 9})\n')
    result = lab.run("up")
    assert (result.verb, result.ok, result.changes.total) == ("up", False, 0)
    assert [(v.policy, v.urn) for v in result.violations] == [("small", URN + "big")]
    assert not [e for e in lab.events if isinstance(e, ResourceEvent)]
    assert (lab.names(), lab.calls("create")) == ([], [])
    assert not lab.request.state_file.exists()


def test_stack_violation_stops_up_before_the_first_change(lab: Lab, pack: Path) -> None:
    write_pack(pack, STANDARD)
    lab.up('[Box(name) for name in "abc"]\n')
    lab.program('[Box(name) for name in "bcde"]\n')
    result = lab.run("up")
    assert not result.ok
    assert reported(lab) == [("few", "mandatory", "lab-dev", "4 boxes are above 3")]
    assert lab.names() == ["a", "b", "c"]
    assert lab.up('[Box(name) for name in "bcd"]\n').changes.delete == 1


def test_up_after_the_callers_preview_judges_each_resource_and_skips_violators(lab: Lab, pack: Path) -> None:
    write_pack(pack, STANDARD)
    lab.program('big = Box("big", {"size": 9})\nBox("after", {"of": big.arn})\nBox("fine")\n')
    result = lab.run("up", previewed=True)
    assert not result.ok
    assert lab.names() == ["fine"]
    assert lab.errors() == {
        "big": "small: small says\nsize 9.0 is above 5",
        "after": f"skipped, because {URN}big failed",
    }


def test_outputs_known_only_in_up_are_judged_when_they_are_known(lab: Lab, pack: Path) -> None:
    write_pack(
        pack,
        """
        def check(args, report):
            if args.resource_type == "box:index:Box" and args.props.get("of", "").startswith("arn:"):
                report("no arns")
        PolicyPack("late", [rule("late", check)])
        """,
    )
    lab.program('a = Box("a")\nBox("b", {"of": a.arn})\n')
    preview = lab.run("preview")
    assert preview.ok
    assert [(v.policy, v.enforcement) for v in preview.violations] == [("late", "advisory")]
    assert "can't run policy 'late'" in preview.violations[0].message
    result = lab.run("up")
    assert not result.ok
    assert lab.names() == ["a"]
    assert reported(lab) == [("late", "mandatory", "b", "no arns")]


def test_advisory_violation_is_reported_once_and_a_disabled_rule_is_silent(lab: Lab, pack: Path) -> None:
    write_pack(
        pack,
        """
        def check(args, report):
            if args.resource_type.startswith("box:"):
                report("hm")
        PolicyPack("mild", [
            rule("hint", check, EnforcementLevel.ADVISORY, severity=Severity.LOW),
            rule("off", check, EnforcementLevel.DISABLED),
        ])
        """,
    )
    result = lab.up('Box("a")\n')
    assert result.violations == (
        PolicyEvent("mild", "hint", "advisory", "hint says\nhm", URN + "a", "1.2.3", "low", "hint says"),
    )
    assert reported(lab) == [("hint", "advisory", "a", "hm")]


def test_stack_rule_reports_severity_level_and_resource(lab: Lab, pack: Path) -> None:
    write_pack(
        pack,
        """
        def check(args, report):
            report("everywhere")
            report("at a", boxes(args)[0].urn)
            report("at nothing", "urn:pulumi:dev::lab::box:index:Box::gone")
        PolicyPack("stack", [stack_rule("s", check, EnforcementLevel.REMEDIATE, severity=Severity.CRITICAL)])
        """,
    )
    result = lab.program('Box("a")\n').run("preview")
    assert [(v.message.split("\n")[1], v.urn) for v in result.violations] == [
        ("everywhere", ROOT),
        ("at a", URN + "a"),
        ("at nothing", ROOT),
    ]
    assert {(v.enforcement, v.severity) for v in result.violations} == {("mandatory", "critical")}


def test_stack_rule_sees_outputs_parents_dependencies_and_providers(lab: Lab, pack: Path) -> None:
    write_pack(
        pack,
        """
        def check(args, report):
            for r in args.resources:
                if r.name in ("b", "lab-dev"):
                    needs = {key: [d.name for d in found] for key, found in r.property_dependencies.items()}
                    report(repr((r.name, dict(r.props), r.parent and r.parent.name,
                                 [d.name for d in r.dependencies], needs,
                                 r.provider and dict(r.provider.props))))
        PolicyPack("stack", [stack_rule("s", check, EnforcementLevel.ADVISORY)])
        """,
    )
    lab.configure(config={"box:region": "north"})
    lab.up("""
        g = Group("g")
        a = Box("a")
        b = Box("b", {"of": a.arn}, Opts(parent=g))
        pulumi.export("answer", a.region)
    """)
    b, stack = sorted(v.message.split("\n", 1)[1] for v in lab.run("up").violations)
    arn = lab.resources()["a"]["outputs"]["arn"]
    own = lab.resources()["b"]["outputs"]["arn"]
    shown = {"arn": own, "region": "north", "of": arn}
    assert eval(b)[0] == "b"
    assert eval(b)[1] == shown
    assert eval(b)[2:] == ("g", ["a"], {"of": ["a"]}, {"region": "north"})
    assert eval(stack)[:3] == ("lab-dev", {"answer": "north"}, None)


# -- remediations

TAG = """
def tag(args):
    if args.resource_type == "box:index:Box" and "team" not in args.props:
        return {**args.props, "team": "ml"}

def untagged(args, report):
    if args.resource_type == "box:index:Box" and "team" not in args.props:
        report("no team")
"""


def test_remediation_replaces_the_inputs_before_they_are_judged(lab: Lab, pack: Path) -> None:
    write_pack(pack, TAG + 'PolicyPack("r", [rule("t", untagged, EnforcementLevel.REMEDIATE, tag)])\n')
    text = 'a = Box("a", {"size": 1, "zone": "x", "password": pulumi.Output.secret("s3cret")})\n'
    text += 'Box("b", {"of": a.arn})\n'
    result = lab.up(text)
    assert result.violations == ()
    assert result.remediations == tuple(
        RemediationEvent("r", "t", URN + name, ("team",), "1.2.3", "t says") for name in "ab"
    )
    assert [e for e in lab.events if isinstance(e, RemediationEvent)] == list(result.remediations)
    assert lab.resources()["a"]["inputs"]["team"] == "ml"
    assert "s3cret" not in json.dumps(lab.export())
    assert "s3cret" not in str(lab.events)
    # The next run remediates to the same, so nothing changes.
    assert lab.up().changes.total == 0
    # It is also kept if a replacement computes the inputs again.
    assert lab.up(text.replace('"x"', '"y"')).changes.replace == 1
    assert lab.resources()["a"]["inputs"]["team"] == "ml"


def test_preview_shows_remediated_inputs_and_keeps_unknown_values(lab: Lab, pack: Path) -> None:
    write_pack(pack, TAG + 'PolicyPack("r", [rule("t", untagged, EnforcementLevel.REMEDIATE, tag)])\n')
    result = lab.program('a = Box("a")\nBox("b", {"of": a.arn})\n').run("preview")
    inputs = {r.name: dict(r.inputs) for r in result.resources}
    assert inputs["b"] == {"of": "[unknown]", "team": "ml"}


def test_violation_left_by_a_remediation_is_mandatory(lab: Lab, pack: Path) -> None:
    write_pack(
        pack, TAG + 'PolicyPack("r", [rule("t", untagged, EnforcementLevel.REMEDIATE, lambda args: None)])\n'
    )
    assert not lab.program('Box("a")\n').run("up").ok
    assert reported(lab) == [("t", "mandatory", "a", "no team")]
    assert lab.names() == []


def test_all_packs_remediate_in_order_before_any_judges(lab: Lab, tmp_path: Path) -> None:
    one = write_pack(
        tmp_path / "one", TAG + 'PolicyPack("one", [rule("t", untagged, EnforcementLevel.REMEDIATE, tag)])\n'
    )
    two = write_pack(
        tmp_path / "two",
        """
        def shout(args):
            if args.props.get("team") == "ml":
                return {**args.props, "team": "ML"}
        def see(args, report):
            if "team" in args.props:
                report(args.props["team"])
        PolicyPack("two", [rule("s", see, EnforcementLevel.REMEDIATE, shout)])
        """,
        project="runtime: python\n",
    )
    result = lab.configure(policy_packs=(one, two)).program('Box("a")\n').run("preview")
    assert [(r.pack, r.policy, r.version) for r in result.remediations] == [
        ("one", "t", "1.2.3"),
        ("two", "s", "0.0.1"),
    ]
    assert reported(lab) == [("s", "mandatory", "a", "ML")]


# -- inputs of a pack


def test_pack_sees_secrets_options_stack_and_environment_of_the_request(lab: Lab, pack: Path) -> None:
    write_pack(
        pack,
        """
        import pulumi
        def check(args, report):
            if args.name == "a":
                report(repr((args.props["password"], args.opts.protect, args.opts.parent,
                             args.opts.custom_timeouts.create_seconds, pulumi.get_stack(),
                             pulumi.get_project(), pulumi.runtime.is_dry_run(),
                             pulumi.Config("lab").get("k"), os.getcwd(), os.environ["MINE"])))
        sys.stderr.write("hello from the pack" + os.linesep)
        PolicyPack("p", [rule("r", check, EnforcementLevel.ADVISORY)])
        """,
    )
    lab.configure(config={"lab:k": "v"}, env={**lab.request.env, "MINE": "yes"})
    lab.program("""
        Box("a", {"password": pulumi.Output.secret("s3cret")},
            Opts(protect=True, custom_timeouts=pulumi.CustomTimeouts(create="5m")))
    """)
    (violation,) = lab.run("preview").violations
    assert eval(violation.message.split("\n", 1)[1]) == (
        "s3cret", True, ROOT, 300.0, "dev", "lab", True, "v", str(pack), "yes",
    )  # fmt: skip
    assert "hello from the pack" in lab.messages("info")


def test_only_preview_and_up_run_packs(lab: Lab, pack: Path) -> None:
    lab.up('Box("a")\n', policy_packs=())
    write_pack(pack, "raise RuntimeError('never started')\n")
    assert lab.run("refresh").ok
    assert lab.run("destroy").ok


def test_without_packs_no_pack_code_is_loaded() -> None:
    code = (
        "import sys, gpufleet.engine.embedded.engine;"
        "sys.exit(bool({'jsonschema', 'ruamel.yaml'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
