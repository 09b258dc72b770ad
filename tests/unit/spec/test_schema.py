"""The JSON schema agrees with the loader, judged by the jsonschema library."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml

from gpufleet.catalog import load_catalog
from gpufleet.environments import Choices, draft_environment
from gpufleet.spec.init import TEMPLATES
from gpufleet.spec.models import FleetSpec
from gpufleet.spec.schema import fleet_schema
from gpufleet.spec.shape import bare, fields_of, is_model
from tests.unit.spec.samples import ROOT, VALID

SCHEMA = fleet_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def problems(data: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(data)]


def test_schema_is_valid_draft_2020_12() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_defaults_are_what_a_file_may_have() -> None:
    invalid = [
        f"{name}.{key}: {field['default']}"
        for name, definition in SCHEMA["$defs"].items()
        for key, field in definition.get("properties", {}).items()
        if "default" in field
        and not VALIDATOR.evolve(schema={**field, "$defs": SCHEMA["$defs"]}).is_valid(field["default"])
    ]
    assert invalid == []


@pytest.mark.parametrize("environment", ["sandbox", "dev", "prod"])
def test_schema_accepts_the_shipped_files(environment: str) -> None:
    data = yaml.safe_load((ROOT / "stacks" / environment / "fleet.yaml").read_text())
    assert problems(data) == []
    data["cloud"][0]["regoin"] = "x"
    assert any("regoin" in problem for problem in problems(data))


@pytest.mark.parametrize("template", TEMPLATES)
def test_schema_accepts_the_templates(template: str) -> None:
    draft = draft_environment(Choices(template), "demo", "atlas", load_catalog())
    assert problems(yaml.safe_load(draft.text)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fleet: atlas\n", "fleet: atlas\nfleets: x\n"),
        ("fleet: atlas\n", ""),
        ("    region: us-east-1\n", ""),
        ("{on_demand: {min: 1, max: 2}}", "{on_demand: {max: 2}, spot: {max: 1}}"),
        ("{on_demand: {min: 1, max: 2}}", "{}"),
        ("capacity: 1200 GiB", "capacity: 1200"),
        ("capacity: 1200 GiB", "capacity: 24 TB"),
        ("monthly: 1000 USD", "monthly: -1 USD"),
        ("nodes: dgx[01-04]", "nodes: dgx[]"),
        ("min: 1", "min: -1"),
        ("kind: infiniband", "kind: token-ring"),
        ("environment: demo", "environment: Demo"),
    ],
)
def test_schema_refuses_what_the_loader_refuses(old: str, new: str) -> None:
    assert problems(yaml.safe_load(VALID)) == []
    assert problems(yaml.safe_load(VALID.replace(old, new))) != []


def test_file_that_extends_may_omit_and_remove_fields() -> None:
    data = {
        "extends": "../base.yaml",
        "cloud": [{"site": "a", "network": None, "node_groups": [{"name": "b"}]}],
    }
    assert problems(data) == []
    assert problems({**data, "cloud": [{"region": "x"}]}) != []
    assert problems({**data, "fleeet": "x"}) != []
    del data["extends"]
    assert problems(data) != []


def test_every_field_of_every_model_has_a_description() -> None:
    def walk(model: Any) -> None:
        for name, kind in fields_of(model).items():
            definition = SCHEMA["$defs"][model.__name__]["properties"][name]
            assert definition.get("description"), f"{model.__name__}.{name}"
            inner = bare(kind.__args__[0]) if getattr(kind, "__args__", ()) else kind
            if is_model(inner):
                walk(inner)

    walk(FleetSpec)
