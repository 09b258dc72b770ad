"""Resources that no provider serves: an error, or taken as declared if the request assumes them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpufleet.engine.api import UNKNOWN, Changes

from .conftest import Lab

PROGRAM = """
class Thing(pulumi.CustomResource):
    out: pulumi.Output[str]

    def __init__(self, name, size, opts=None):
        super().__init__("nowhere:index:Thing", name, {"size": size, "out": None}, opts)

a = Box("a", {"size": 1})
t = Thing("t", SIZE)
u = Thing("u", a.arn)
b = Box("b", {"of": t.out.apply(lambda text: text.upper()), "sure": 1})
c = Box("c", {"of": t.id})
pulumi.export("of", t.out)
pulumi.export("id", t.id)
pulumi.export("a", a.arn)
"""


@pytest.fixture
def assuming(lab: Lab) -> Lab:
    """A lab whose requests assume, with a package that has no plugin."""
    lab.request = replace(lab.request, assumes=True, env={**lab.request.env, "PULUMI_HOME": str(lab.folder)})
    return lab


def _program(size: int) -> str:
    return PROGRAM.replace("SIZE", str(size))


def test_resource_without_a_plugin_is_an_error_by_default(lab: Lab) -> None:
    lab.program(_program(1))
    for verb in ("preview", "up"):
        result = lab.run(verb)
        assert not result.ok
        assert any("no provider plugin for package 'nowhere'" in each.error for each in result.failures)
    assert lab.names() == ["a"]


def test_preview_takes_it_as_declared_with_unknown_outputs(assuming: Lab) -> None:
    assuming.program(_program(1))
    result = assuming.run("preview")
    assert result.ok, result.failures
    assert result.outputs == {"of": UNKNOWN, "id": UNKNOWN, "a": UNKNOWN}
    planned = {each.name: each.inputs for each in result.resources}
    assert planned["t"] == {"size": 1}
    assert planned["b"] == {"of": UNKNOWN, "sure": 1}
    assert assuming.names() == []


def test_up_creates_what_is_served_and_keeps_the_rest_unknown(assuming: Lab) -> None:
    result = assuming.up(_program(1))
    assert result.ok, result.failures
    # What needs an unknown value is foreseen, and does not exist.
    assert assuming.names() == ["a"]
    assert result.outputs["a"].startswith("arn:a-")
    assert assuming.up().changes == Changes(same=result.changes.create)
    assuming.program(_program(2))
    changed = assuming.run("preview")
    assert changed.ok, changed.failures
    assert (changed.changes.update, changed.changes.create, changed.changes.replace) == (1, 0, 0)
    updated = [each.name for each in changed.resources if each.op.value == "update"]
    assert updated == ["t"]
    planned = {each.name: each.inputs for each in changed.resources}
    assert planned["b"] == {"of": UNKNOWN, "sure": 1}
    assert planned["c"] == {"of": UNKNOWN}


def test_function_without_a_plugin_has_no_assumed_result(assuming: Lab) -> None:
    result = assuming.program('pulumi.runtime.invoke("nowhere:index:find", {})\n').run("up")
    assert not result.ok
    text = " ".join(each.message for each in result.diagnostics)
    assert "the function nowhere:index:find needs the plugin of package 'nowhere'" in text
