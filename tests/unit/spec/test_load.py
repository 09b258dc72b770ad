"""The loader: environments by name, every finding at once, and messages with remedies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpufleet.errors import ExitCode, InputError
from gpufleet.spec.load import environments, load_fleet
from tests.unit.spec.samples import VALID, Checkout

GROUP = "cloud[0].node_groups[0]"
STORE = "cloud[0].storage[0]"
MIN = f"{GROUP}.capacity.on_demand.min"

PYDANTIC = re.compile(
    r"Input should|Field required|Extra inputs|valid (string|integer|dictionary)|\bpydantic\b"
)


def test_environment_loads_by_name_and_by_path(checkout: Checkout) -> None:
    by_name = checkout.load(VALID)
    by_path = load_fleet(str(checkout.path), root=checkout.root)
    assert by_name.spec == by_path.spec
    assert (by_name.environment, by_name.path) == ("demo", checkout.path)
    assert by_name.source.file == by_path.source.file == "stacks/demo/fleet.yaml"


def test_file_outside_the_checkout_is_shown_as_given(checkout: Checkout, tmp_path: Path) -> None:
    path = checkout.write(VALID, "elsewhere/any.yaml")
    loaded = load_fleet(str(path), root=tmp_path / "stacks")
    assert loaded.source.file == str(path)
    assert loaded.environment == "demo"


def test_unknown_environment_suggests_the_nearest_and_lists_all(checkout: Checkout) -> None:
    checkout.write(VALID)
    checkout.write(VALID, "stacks/prod/fleet.yaml")
    (checkout.root / "stacks" / "empty").mkdir()
    assert environments(checkout.root) == ["demo", "prod"]
    with pytest.raises(InputError) as caught:
        load_fleet("prd", root=checkout.root)
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert "'prd'" in caught.value.message
    assert "did you mean 'prod'? There are demo, prod" in caught.value.remedy
    assert "empty" not in caught.value.remedy


@pytest.mark.parametrize("name", ["", "..", ".", "~", "a b", "Demo", "demo\n", "-", "%00"])
def test_invalid_environment_name_is_bad_input(checkout: Checkout, name: str) -> None:
    checkout.write(VALID)
    with pytest.raises(InputError, match="no environment"):
        load_fleet(name, root=checkout.root)


def test_checkout_without_environments_suggests_init(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_fleet("dev", root=tmp_path)
    assert "gpufleet init" in caught.value.remedy


def test_environment_in_the_file_must_match_its_folder(checkout: Checkout) -> None:
    finding = checkout.changed("environment: demo", "environment: prod")
    assert (finding.rule, finding.line, finding.value) == ("environment-name", 3, "prod")
    assert "environment: demo" in finding.remedy


def test_file_outside_the_environments_may_have_any_name(checkout: Checkout) -> None:
    path = checkout.write(VALID.replace("environment: demo", "environment: other"), "fleet.yaml")
    assert load_fleet(str(path), root=checkout.root).environment == "other"


def test_all_findings_are_reported_in_file_order(checkout: Checkout) -> None:
    text = (
        VALID.replace("fleet: atlas", "fleet: Atlas")
        .replace("monthly: 1000 USD", "monthly: -5 USD")
        .replace("region:", "regoin:")
        .replace("{on_demand: {min: 1, max: 2}}", "{on_demand: {min: -1, max: 2}, spot: {max: x}}")
        .replace("nodes: dgx[01-04]", "nodes: dgx[]")
        .replace("kind: infiniband", "kind: infinband")
    )
    found = checkout.findings(text)
    assert [each.rule for each in found] == [
        "bad-text",
        "bad-quantity",
        "missing-field",
        "unknown-field",
        "out-of-bounds",
        "wrong-type",
        "exactly-one-of",
        "bad-quantity",
        "unknown-choice",
    ]
    assert [each.line for each in found] == sorted(each.line for each in found)
    for each in found:
        assert each.file == "stacks/demo/fleet.yaml"
        assert each.field and each.message and each.remedy
        assert each.severity == "error"
        assert not PYDANTIC.search(each.message + each.remedy)


@pytest.mark.parametrize(
    ("old", "new", "rule", "field", "words"),
    [
        (
            "    region:",
            "    regoin: x\n    region:",
            "unknown-field",
            "cloud[0].regoin",
            "did you mean 'region'?",
        ),
        ("software:", "softwares: 1\nsoftware:", "unknown-field", "softwares", "did you mean 'software'?"),
        ("software:", "qqqq: 1\nsoftware:", "unknown-field", "qqqq", "the fields are apiVersion, fleet"),
        (
            "    region: us-east-1\n",
            "",
            "missing-field",
            "cloud[0].region",
            "'region' is missing in cloud[0]",
        ),
        ("region: us-east-1", "region:", "empty-value", "cloud[0].region", "no value"),
        ("region: us-east-1", "region: ''", "too-short", "cloud[0].region", "empty"),
        ("region: us-east-1", "region: [us-east-1]", "wrong-type", "cloud[0].region", "has to be text"),
        ("zones: [us-east-1a]", "zones: us-east-1a", "wrong-type", "cloud[0].zones", "zones: [us-east-1a]"),
        ("zones: [us-east-1a]", "zones: []", "empty-list", "cloud[0].zones", "at least 1"),
        ("zones: [us-east-1a]", "zones: [~]", "empty-value", "cloud[0].zones[0]", "no value"),
        (
            "{cidr: 10.0.0.0/16}",
            "10.0.0.0/16",
            "wrong-type",
            "cloud[0].network",
            "{cidr: 10.40.0.0/16}",
        ),
        (
            "region: us-east-1",
            "region: us-east-1\n    scheduler: slrum",
            "unknown-choice",
            "cloud[0].scheduler",
            "slurm",
        ),
        (
            "region: us-east-1",
            "region: us-east-1\n    provider: gcp",
            "unknown-choice",
            "cloud[0].provider",
            "write aws",
        ),
        ("gpufleet/v1", "gpufleet/v2", "unknown-choice", "apiVersion", "gpufleet/v1"),
        ("apiVersion: gpufleet/v1", "api_version: gpufleet/v1", "", "", ""),
        ("name: serve", "name: Serve_1", "bad-text", f"{GROUP}.name", "write 'serve-1'"),
        ("name: serve", "name: serve-", "bad-text", f"{GROUP}.name", "write 'serve'"),
        ("name: serve", "name: " + "s" * 64, "too-long", f"{GROUP}.name", "63"),
        ("min: 1", "min: -1", "out-of-bounds", MIN, "write 0 or more"),
        ("min: 1", "min: 100001", "out-of-bounds", MIN, "or less"),
        ("min: 1", "min: 1.0", "wrong-type", MIN, "whole number"),
        ("min: 1", "min: 0x10", "wrong-type", MIN, "whole number"),
        ("min: 1", "min: 1_000", "wrong-type", MIN, "whole number"),
        ("min: 1", "min: " + "9" * 5000, "wrong-type", MIN, "whole"),
        ("{on_demand: {min: 1, max: 2}}", "{}", "exactly-one-of", f"{GROUP}.capacity", "needs one of"),
        (
            "{on_demand: {min: 1, max: 2}}",
            "{reserved: {}}",
            "exactly-one-of",
            f"{GROUP}.capacity.reserved",
            "odcr",
        ),
        ("        mount: /fsx/scratch\n", "        mount: fsx\n", "bad-text", f"{STORE}.mount", "absolute"),
        (
            "capacity: 1200 GiB",
            "capacity: 24 W",
            "bad-quantity",
            f"{STORE}.lustre.capacity",
            "unknown unit 'W'",
        ),
        (
            "capacity: 1200 GiB",
            "capacity: 1200",
            "bad-quantity",
            f"{STORE}.lustre.capacity",
            "unit is missing",
        ),
        ("capacity: 1200 GiB", "capacity: 24 TB", "bad-quantity", f"{STORE}.lustre.capacity", "21600 GiB"),
        ("capacity: 1200 GiB", "capacity: [1]", "wrong-type", f"{STORE}.lustre.capacity", "a size"),
        (
            "capacity: 1200 GiB}",
            "capacity: 1200 GiB, throughput: 250 MB/s}",
            "bad-quantity",
            f"{STORE}.lustre.throughput",
            "MB/s/TiB",
        ),
        (
            "capacity: 1200 GiB}",
            "capacity: 1200 GiB, import_from: data}",
            "bad-text",
            f"{STORE}.lustre.import_from",
            "s3://",
        ),
        ("{deployment: scratch-2, capacity: 1200 GiB}", "~", "exactly-one-of", STORE, "lustre and bucket"),
        ("monthly: 1000 USD", "monthly: -1 USD", "bad-quantity", "budget.monthly", "negative"),
        ("monthly: 1000 USD", "monthly: 1000 EUR", "bad-quantity", "budget.monthly", "USD"),
        ("monthly: 1000 USD", "monthly: 1000 USD, alerts: [80]", "bad-quantity", "budget.alerts[0]", "50%"),
        ("pue: 1.25", "pue: 0.9", "out-of-bounds", "onprem[0].power.pue", "1.0 or more"),
        ("pue: 1.25", "pue: .nan", "wrong-type", "onprem[0].power.pue", "a number"),
        ("pue: 1.25", "pue: 1e1", "wrong-type", "onprem[0].power.pue", "a number"),
        ("nodes: dgx[01-04]", "nodes: dgx[04-01]", "bad-quantity", "onprem[0].nodes", "[01-04]"),
        ("channel: 2026.10", "channel: 2026.1", "bad-text", "software.channel", "two digits"),
        ("version: 1.30", "version: 1.3", "bad-text", "cloud[0].kubernetes.version", "1.35"),
        ("{nvidia.com/gpu: true}", "[a]", "wrong-type", f"{GROUP}.labels", "mapping of names"),
        (
            "{nvidia.com/gpu: true}",
            "{nvidia.com/gpu: [a]}",
            "wrong-type",
            f'{GROUP}.labels["nvidia.com/gpu"]',
            "text",
        ),
    ],
)
def test_invalid_value_is_reported_with_field_rule_and_remedy(
    checkout: Checkout, old: str, new: str, rule: str, field: str, words: str
) -> None:
    if not rule:
        # The name of the model's attribute is not the name of the field.
        found = checkout.findings(VALID.replace(old, new))
        assert {(each.rule, each.field) for each in found} == {
            ("missing-field", "apiVersion"),
            ("unknown-field", "api_version"),
        }
        return
    finding = checkout.changed(old, new)
    assert (finding.rule, finding.field) == (rule, field)
    assert words in f"{finding.message}; {finding.remedy}"
    assert not PYDANTIC.search(finding.message + finding.remedy)


def test_findings_are_limited_to_a_thousand_and_the_rest_is_counted(checkout: Checkout) -> None:
    found = checkout.findings(VALID + "".join(f"field{index}: 1\n" for index in range(1500)))
    assert len(found) == 1001
    assert (found[-1].rule, found[-1].line) == ("too-many-findings", found[-2].line + 1)
    assert "500 more" in found[-1].message


def test_too_many_sites_are_refused_before_their_hosts_are_expanded(
    checkout: Checkout,
) -> None:
    sites = "".join(f"  - {{site: s{index}, nodes: 'n[00001-10000]'}}\n" for index in range(5000))
    found = checkout.findings(VALID.replace("onprem:\n", "onprem:\n" + sites))
    assert [each.field for each in found if each.rule == "too-long"] == ["onprem"]


def test_findings_serialize_as_plain_json(checkout: Checkout) -> None:
    data = checkout.changed("zones: [us-east-1a]", "zones: {a: b}").to_json()
    assert set(data) == {"file", "line", "field", "value", "rule", "message", "remedy", "severity"}
    assert data["value"] == "{'a': 'b'}"
