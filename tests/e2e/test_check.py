"""`gpufleet check` in a pull request: a repository, a base, a change, one verdict."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.conftest import ROOT, Checkout, fork_packages
from tests.unit.verdict.conftest import Git

pytestmark = pytest.mark.xdist_group("e2e")

FLEET = """\
apiVersion: gpufleet/v1
fleet: atlas
environment: tiny
budget: { monthly: 60000 USD }
tags: { team: ml-platform, cost-center: cc-4711, project: atlas }
cloud:
  - site: use1
    provider: aws
    region: us-east-1
    zones: [us-east-1a]
    network: { cidr: 10.70.0.0/16, nat: single }
    scheduler: slurm
    node_groups:
      - name: burst
        instance_types: [g6e.2xlarge]
        capacity: { on_demand: { min: 0, max: 2, desired: 1 } }
        workload: batch
    storage:
      - name: data
        bucket: { name: atlas-tiny-data }
onprem:
  - site: lab
    system: dgx-h100
    nodes: dgx[01-02]
    network: 10.90.0.0/24
    fabric: { kind: infiniband, speed: ndr }
    controllers: ctl01
    power: { per_rack: 40 kW, pue: 1.25, price: 0.11 USD/kWh }
software: { channel: 2026.11 }
"""

MOST = '''\
"""A rule over a change."""

from decimal import Decimal

from gpufleet.policy.rule import Example, Violation, change_rule


@change_rule(
    "small-steps",
    group="budget",
    title="A change adds little",
    why="It is judged with all that waits.",
    fix="Split it.",
    severity="low",
    enforcement="advisory",
    passes=Example(()),
    fails=Example(()),
    fleet_field="budget.monthly",
)
def small_steps(change, context):
    """All that waits together."""
    increase = change.cost_after.total.maximum - change.cost_before.total.maximum
    waiting = sum((each.increase for each in change.open_changes), Decimal(0))
    jobs = sum(change.jobs.values())
    had = "a" if change.spec_before is not None else "no"
    message = f"adds {increase:.0f}, {waiting:.0f} waits, {jobs} jobs, {had} fleet before"
    if increase + waiting > 100:
        yield Violation(message, "split it")
'''


@pytest.fixture
def repository(tmp_path: Path) -> Checkout:
    """A fork with two rules and one small environment, committed as main."""
    root = tmp_path / "repository"
    root.mkdir()
    shutil.copy(ROOT / "Pulumi.yaml", root)
    for name in ("stacks", "components", "policies"):
        ignored = shutil.ignore_patterns("__pycache__", "dev", "prod", "sandbox", "Pulumi.*.yaml")
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    fork_packages(root)
    rules = root / "policies" / "rules"
    for path in rules.glob("*/*.py"):
        if not path.name.startswith("_") and path.name != "imdsv2_required.py":
            path.unlink()
    (rules / "budget" / "small_steps.py").write_text(MOST)
    (root / "stacks" / "tiny").mkdir()
    (root / "stacks" / "tiny" / "fleet.yaml").write_text(FLEET)
    (root / ".gitignore").write_text("__pycache__/\n")
    Git(root).commit("base")
    # No request goes to the account that the user has chosen.
    env = {
        "HOME": str(tmp_path / "home"),
        "GPUFLEET_POLICY_NOW": "2026-11-21T12:00:00+00:00",
        "AWS_PROFILE": "company",
        "AWS_ACCESS_KEY_ID": "nobodys-key",
        "AWS_SECRET_ACCESS_KEY": "x",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(tmp_path / "temporary"),
    }
    (tmp_path / "temporary").mkdir()
    return Checkout(root, env)


def git_of(repository: Checkout) -> Git:
    """Git in the repository, which is there already."""
    made = object.__new__(Git)
    made.root = repository.root
    return made


def change(repository: Checkout, *changes: tuple[str, str], file: str = "stacks/tiny/fleet.yaml") -> None:
    """Replace text in a file; the old text must exist."""
    path = repository.root / file
    text = path.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)


def branch(
    repository: Checkout, name: str, *changes: tuple[str, str], file: str = "stacks/tiny/fleet.yaml"
) -> None:
    """A branch with one commit on top of main; main is checked out again."""
    git = git_of(repository)
    git("checkout", "--quiet", "-b", name)
    change(repository, *changes, file=file)
    git.commit(name)
    git("checkout", "--quiet", "main")


def rule_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    """One rule of a verdict."""
    (found,) = [rule for rule in document["rules"] if rule["name"] == name]
    return dict(found)


def test_clean_environment_passes_and_leaves_no_files(repository: Checkout, tmp_path: Path) -> None:
    document = repository.json("check", "tiny")
    assert document["verdict"] == "pass"
    assert {rule["name"]: rule["status"] for rule in document["rules"]} == {
        "imdsv2-required": "passed",
        "small-steps": "disabled",
    }
    assert rule_of(document, "small-steps")["note"]
    assert document["changes"]["create"] > 40
    assert document["cost"]["before"] is None
    assert document["cost"]["after"] > 1000
    assert document["cost"]["unknown"] == []
    assert git_of(repository)("status", "--porcelain", "--ignored") == ""
    assert list((tmp_path / "temporary").iterdir()) == []


def test_running_block_does_not_block_other_changes_and_is_not_bought_again(repository: Checkout) -> None:
    today = dt.datetime.now(dt.UTC).date()
    start = (today - dt.timedelta(days=3)).isoformat()
    block = f"{{ nodes: 1, duration: 7 d, start: {start} }}"
    group = f"""\
      - name: pretrain
        instance_types: [p5.48xlarge]
        capacity: {{ reserved: {{ capacity_block: {block} }} }}
"""
    change(repository, ("    storage:\n", f"{group}    storage:\n"))
    added = repository.json("check", "tiny", "--base", "main", code=2)
    assert [each["rule"] for each in added["findings"] if each["severity"] == "error"] == [
        "capacity-block-start"
    ]
    git_of(repository).commit("a block that was bought before it started")
    change(repository, ("max: 2", "max: 3"))
    document = repository.json("check", "tiny", "--base", "main")
    assert document["verdict"] == "pass"
    assert {each["operation"] for each in document["changes"]["resources"]} == {"update"}
    change(repository, (start, (today - dt.timedelta(days=4)).isoformat()))
    another = repository.json("check", "tiny", "--base", "main", code=2)
    assert "starts in the past" in str(another["findings"])


def test_base_is_deployed_once_for_two_checks_and_again_after_a_change(
    repository: Checkout,
) -> None:
    change(repository, ("max: 2", "max: 6"))
    made, first = _with_base(repository)
    kept, second = _with_base(repository)
    assert (made, kept) == ("creating", "restoring")
    assert second == first
    assert first["changes"]["update"] > 0
    # The base equals the change: nothing is left to do.
    git_of(repository).commit("what was a change")
    changed, third = _with_base(repository)
    assert changed == "creating"
    assert third["changes"]["update"] == 0


def _with_base(repository: Checkout) -> tuple[str, dict[str, Any]]:
    """The base's result, and the verdict without times and line order."""
    file = repository.root.parent / "verdict.json"
    done = repository.run("check", "tiny", "--base", "main", "--json-file", str(file))
    step = next(line for line in done.stderr.splitlines() if " the base main " in line)
    document = json.loads(file.read_text())
    for name in ("lines", "not_counted"):
        document["cost"][name].sort(key=json.dumps)
    for name in ("judged_at", "duration_s"):
        del document[name]
    return ("restoring" if "restoring the base" in step else "creating"), document


def test_change_is_compared_with_its_base(repository: Checkout, tmp_path: Path) -> None:
    change(
        repository,
        ("max: 2", "max: 6"),
        ("atlas-tiny-data", "atlas-tiny-corpus"),
        ("dgx[01-02]", "dgx[01-05]"),
    )
    change(repository, ("A change adds", "Each change adds"), file="policies/rules/budget/small_steps.py")
    (tmp_path / "jobs.json").write_text('{"use1/burst": 2}')
    files = {name: tmp_path / f"v.{name}" for name in ("markdown", "sarif", "junit")}
    options = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    document = repository.json(
        "check", "tiny", "--base", "main", "--jobs", str(tmp_path / "jobs.json"), *options, code=1
    )
    git = git_of(repository)
    assert document["base"] == {"ref": "main", "commit": git("rev-parse", "main"), "new_environment": False}

    changes = document["changes"]
    assert (changes["create"], changes["delete"]) == (0, 0)
    assert changes["same"] > 40
    replaced = {each["name"]: each for each in changes["resources"] if each["operation"] == "replace"}
    assert replaced["atlas-tiny-use1-data"]["replace_keys"] == ["bucket"]
    assert {each["owner"] for each in replaced.values()} == {"data"}
    updated = [
        each for each in changes["resources"] if each["operation"] == "update" and each["owner"] == "burst"
    ]
    assert [each["diff"] for each in updated] == [["maxSize"]]

    cost = document["cost"]
    assert cost["at_max"] > cost["at_max_before"] > cost["after"]
    grown = [line for line in cost["lines"] if line["changed"] and line["owner"] == "burst"]
    assert grown
    assert all(line["after"] == line["before"] and line["at_max"] > line["at_max_before"] for line in grown)
    (racks,) = document["onprem"]
    assert (racks["before"]["nodes"], racks["after"]["nodes"]) == (2, 5)
    assert racks["after"]["power_kw"] > racks["before"]["power_kw"]

    (protected,) = rule_of(document, "protected-resources")["violations"]
    assert protected["name"] == "atlas-tiny-use1-data"
    assert (protected["file"], FLEET.splitlines()[protected["line"] - 1].strip()) == (
        "stacks/tiny/fleet.yaml",
        "- name: data",
    )
    (steps,) = rule_of(document, "small-steps")["violations"]
    assert "2 jobs, a fleet before" in steps["message"]
    assert document["guard"] == {"files": ["policies/rules/budget/small_steps.py"], "settings": []}
    assert rule_of(document, "guard-touched")["status"] == "advisory"

    results = json.loads(files["sarif"].read_text())["runs"][0]["results"]
    assert {result["ruleId"]: result["level"] for result in results} == {
        "protected-resources": "error",
        "small-steps": "warning",
        "guard-touched": "warning",
    }
    assert ET.parse(files["junit"]).getroot().attrib["failures"] == "1"
    assert (
        files["markdown"]
        .read_text()
        .startswith("<!-- gpufleet check tiny -->\n### gpufleet check tiny: **fail**")
    )
    assert git("status", "--porcelain").splitlines() == [
        "M policies/rules/budget/small_steps.py",
        " M stacks/tiny/fleet.yaml",
    ]


def test_base_runs_its_own_program(repository: Checkout) -> None:
    branch(
        repository,
        "older",
        ("monitoring=", "ebs_optimized=None, monitoring="),
        file="components/launch_template.py",
    )
    change(
        repository,
        ("http_put_response_hop_limit=1", "http_put_response_hop_limit=2"),
        file="components/launch_template.py",
    )
    document = repository.json("check", "tiny", "--base", "older", code=1)
    template = [each for each in document["changes"]["resources"] if "launchTemplate" in each["type"]]
    assert [(each["operation"], each["diff"]) for each in template] == [("update", ["metadataOptions"])]
    assert rule_of(document, "imdsv2-required")["status"] == "failed"


def test_new_environment_has_no_base_and_open_changes_count(repository: Checkout) -> None:
    git = git_of(repository)
    branch(repository, "wider", ("nodes: dgx[01-02]", "nodes: dgx[01-03]"))
    branch(repository, "broken-fleet", ("monthly: 60000 USD", "monthly: plenty"))
    branch(
        repository,
        "broken-program",
        ("import pulumi\n", "import pulumi_nowhere\n"),
        file="stacks/cloud_site.py",
    )
    document = repository.json(
        *("check", "tiny", "--base", "main", "--open", "wider", "--open", "broken-fleet"),
        *("--open", "broken-program"),
        code=1,
    )
    open_changes = {each["name"]: each for each in document["open_changes"]}
    power = next(line for line in document["cost"]["lines"] if "electricity" in line["what"])
    assert open_changes["wider"]["increase"] == pytest.approx(power["after"] / 2, abs=0.02)
    assert open_changes["broken-fleet"]["increase"] is None
    assert "stacks/tiny/fleet.yaml:4" in open_changes["broken-fleet"]["reason"]
    assert "pulumi_nowhere" in open_changes["broken-program"]["reason"]
    unpriced = rule_of(document, "open-changes-priced")["violations"]
    assert [each["message"].split()[0] for each in unpriced] == ["broken-fleet", "broken-program"]
    assert document["changes"]["same"] > 40

    git("rm", "--quiet", "-r", "--cached", "stacks/tiny")
    git("commit", "--quiet", "--message", "without it")
    document = repository.json("check", "tiny", "--base", "main")
    assert document["base"]["new_environment"]
    assert document["cost"]["before"] == 0
    assert document["changes"]["same"] == 0
    assert "no fleet before" in rule_of(document, "small-steps")["violations"][0]["message"]


def test_exemption_expires_and_an_unused_one_is_reported(repository: Checkout) -> None:
    change(
        repository,
        ("http_put_response_hop_limit=1", "http_put_response_hop_limit=2"),
        file="components/launch_template.py",
    )
    entry = (
        "- {{ rule: imdsv2-required, resource: {}, reason: pods, approver: carol, expires: 2026-11-30 }}\n"
    )
    path = repository.root / "stacks" / "tiny" / "exemptions.yaml"
    path.write_text("exemptions:\n" + entry.format("atlas-tiny-use1-burst") + entry.format("elsewhere"))
    document = repository.json("check", "tiny")
    judged = rule_of(document, "imdsv2-required")
    assert (judged["status"], judged["enforcement"]) == ("exempted", "mandatory")
    assert judged["violations"][0]["effect"] == "exempted"
    assert [(each["in_force"], each["used"], each["line"]) for each in document["exemptions"]] == [
        (True, 1, 2),
        (True, 0, 3),
    ]
    later = {"GPUFLEET_POLICY_NOW": "2026-12-01T00:00:00+00:00"}
    expired = repository.json("check", "tiny", code=1, env=later)
    judged = rule_of(expired, "imdsv2-required")
    assert judged["status"] == "failed"
    assert "expired on 2026-11-30" in judged["violations"][0]["message"]
    assert [each["in_force"] for each in expired["exemptions"]] == [False, False]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("exemptions:\n- { rule: imdsv2-required, resource: x }\n", "missing-field"),
        (
            "exemptions:\n- { rule: imdsv3, resource: x, reason: r, approver: a, expires: 2031-01-01 }\n",
            "policy-rule-name",
        ),
    ],
)
def test_malformed_exemption_is_bad_input_with_its_line(repository: Checkout, text: str, rule: str) -> None:
    (repository.root / "stacks" / "tiny" / "exemptions.yaml").write_text(text)
    document = repository.json("check", "tiny", code=2)
    assert rule in {finding["rule"] for finding in document["findings"]}
    assert {(f["file"], f["line"]) for f in document["findings"]} == {("stacks/tiny/exemptions.yaml", 2)}


def test_settings_of_the_wrong_type_are_bad_input(repository: Checkout) -> None:
    change(
        repository,
        ("software:", "policies: { imdsv2-required: { settings: { hop_limit: far } } }\nsoftware:"),
    )
    document = repository.json("check", "tiny", code=2)
    assert [finding["rule"] for finding in document["findings"]] == ["policy-setting"]


def test_rule_that_fails_to_load_is_reported_as_the_authors_error(repository: Checkout) -> None:
    path = repository.root / "policies" / "rules" / "budget" / "small_steps.py"
    path.write_text("import no_such_module\n")
    document = repository.json("check", "tiny", code=2)
    assert "policies.rules.budget.small_steps does not load" in document["error"]
    assert "policies/rules/budget/small_steps.py" in document["remedy"]


def test_missing_or_invalid_base_is_bad_input(repository: Checkout) -> None:
    assert "nowhere" in repository.json("check", "tiny", "--base", "nowhere", code=2)["error"]
    assert "is not a git ref" in repository.json("check", "tiny", "--base=--help", code=2)["error"]
    branch(repository, "broken-fleet", ("monthly: 60000 USD", "monthly: plenty"))
    document = repository.json("check", "tiny", "--base", "broken-fleet", code=2)
    assert [finding["file"] for finding in document["findings"]] == ["broken-fleet:stacks/tiny/fleet.yaml"]


def test_failing_program_is_named_as_bad_input(repository: Checkout) -> None:
    broken = ("import pulumi\n", "import pulumi_nowhere\n")
    branch(repository, "broken", broken, file="stacks/cloud_site.py")
    base = repository.json("check", "tiny", "--base", "broken", code=2)
    assert "the base broken" in base["error"]
    assert "pulumi_nowhere" in base["error"]
    assert "/gpufleet-verdict-" not in base["error"]
    change(repository, broken, file="stacks/cloud_site.py")
    head = repository.json("check", "tiny", code=2)
    assert "the program of tiny" in head["error"]
    assert "pulumi_nowhere" in head["error"]


def test_checkout_without_git_is_checked_without_comparison(repository: Checkout) -> None:
    shutil.rmtree(repository.root / ".git")
    ceiling = {"GIT_CEILING_DIRECTORIES": str(repository.root.parent)}
    assert (
        "not in a readable git repository"
        in repository.json("check", "tiny", "--base", "main", code=2, env=ceiling)["error"]
    )
    assert repository.json("check", "tiny", env=ceiling)["verdict"] == "pass"


def test_report_shows_the_results_of_check(repository: Checkout, tmp_path: Path) -> None:
    change(repository, ("max: 2", "max: 6"), ("dgx[01-02]", "dgx[01-05]"))
    document = repository.json("check", "tiny", "--base", "main")
    page = tmp_path / "tiny.html"
    assert repository.json("report", "tiny", "--base", "main", "--html", str(page))["verdict"] == "pass"
    html = page.read_text(encoding="utf-8")
    cost = document["cost"]
    assert f">{cost['after']:,.0f} USD <small>a month" in html
    assert f"to {cost['at_max']:,.0f} USD</dd>" in html
    grown = [line for line in cost["lines"] if line["changed"]]
    assert grown
    for line in grown:
        assert f"{line['what']}</th>" in html
    (nodes,) = [line for line in cost["lines"] if line["basis"].startswith("1 x g6e.2xlarge")]
    assert f"By purchase option: On demand: {nodes['after']:,.0f} USD a month" in html
    assert f"{document['changes']['update']} to update" in html
    assert git_of(repository)("status", "--porcelain", "--ignored") == "M stacks/tiny/fleet.yaml"


def test_concurrent_checks_do_not_interfere(repository: Checkout) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: repository.json("check", "tiny"), range(2)))
    assert [each["verdict"] for each in found] == ["pass", "pass"]
    assert not (repository.root / ".gpufleet").exists()
    assert list(Path(repository.env["TMPDIR"]).iterdir()) == []


@pytest.mark.skipif(shutil.which("pulumi") is None, reason="the Pulumi CLI is not on PATH")
def test_real_preview_gives_the_same_verdict(repository: Checkout, tmp_path: Path) -> None:
    (tmp_path / "backend").mkdir()
    repository.env |= {
        "PULUMI_BACKEND_URL": f"file://{tmp_path / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "tried",
        "AWS_ACCESS_KEY_ID": "",
        "AWS_SECRET_ACCESS_KEY": "",
    }
    try:
        real = repository.json("check", "tiny", "--engine", "pulumi", "--cloud", "sandbox")
    finally:
        repository.run("sandbox", "stop")
    embedded = repository.json("check", "tiny")
    assert (real["engine"], real["base"]["ref"], real["base"]["new_environment"]) == (
        "pulumi",
        "deployed",
        True,
    )
    assert real["cost"]["after"] == embedded["cost"]["after"]
    assert {each["urn"] for each in real["changes"]["resources"]} == {
        each["urn"] for each in embedded["changes"]["resources"]
    }
    assert rule_of(real, "imdsv2-required") == rule_of(embedded, "imdsv2-required")
    assert rule_of(real, "small-steps")["status"] == "advisory"
