"""The lifecycle of a stack on the embedded engine: create, change, refresh, delete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.engine.api import SECRET, UNKNOWN, Changes, DiagnosticEvent
from gpufleet.engine.errors import PassphraseError
from gpufleet.errors import InputError

from .conftest import Lab

PAIR = """
g = Group("g")
a = Box("a", {"size": 1}, Opts(parent=g))
b = Box("b", {"of": a.arn})
pulumi.export("arn", b.arn)
"""


@pytest.mark.fresh
def test_stack_is_created_found_unchanged_and_destroyed(lab: Lab) -> None:
    result = lab.up(PAIR)
    assert result.changes == Changes(create=4)
    assert lab.names() == ["a", "b"]
    (thing,) = [thing for thing in lab.things().values() if thing["urn"].endswith("::b")]
    assert result.outputs == lab.engine.outputs(lab.request) == {"arn": f"arn:{thing['id']}"}
    assert thing["inputs"]["of"].startswith("arn:a-")
    assert lab.up().changes == Changes(same=4)
    assert lab.calls("update", "delete") == []
    destroyed = lab.run("destroy")
    assert destroyed.ok
    assert destroyed.changes == Changes(delete=4)
    assert lab.names() == []
    assert lab.export()["resources"] == []
    assert lab.engine.outputs(lab.request) == {}


def test_preview_changes_nothing_and_leaves_no_file(lab: Lab) -> None:
    lab.program(PAIR)
    result = lab.run("preview")
    assert result.ok
    assert result.changes == Changes(create=4)
    assert lab.names() == []
    assert not lab.request.state_file.parent.exists()
    assert lab.steps("started") == []
    assert lab.engine.export(lab.request) is None


def test_values_that_need_an_update_are_unknown_in_a_preview(lab: Lab) -> None:
    lab.program("""
        a = Box("a", {"size": 1})
        b = Box("b", {"of": a.arn, "text": pulumi.Output.concat("x-", a.id), "sure": a.size if False else 3})
        c = Box("c", {"nested": {"list": [b.arn, "known"]}})
        pulumi.export("arn", a.arn)
        pulumi.export("sure", 4)
    """)
    result = lab.run("preview")
    inputs = {resource.name: resource.inputs for resource in result.resources}
    assert inputs["b"] == {"of": UNKNOWN, "text": UNKNOWN, "sure": 3}
    assert inputs["c"] == {"nested": {"list": [UNKNOWN, "known"]}}
    assert result.outputs == {"arn": UNKNOWN, "sure": 4}


def test_preview_of_a_change_knows_unchanged_values(lab: Lab) -> None:
    lab.up('a = Box("a", {"size": 1})\nBox("b", {"of": a.arn})\n')
    lab.program('a = Box("a", {"size": 2})\nBox("b", {"of": a.arn})\n')
    result = lab.run("preview")
    assert result.changes == Changes(update=1, same=2)
    changed = {resource.name: resource for resource in result.resources if resource.op == "update"}
    assert changed["a"].diff == ("size",)
    assert changed["a"].replace_keys == ()
    assert [thing["inputs"].get("size") for thing in lab.things().values()] == [1, None]


def test_secrets_are_encrypted_on_disk_and_shown_only_on_request(lab: Lab) -> None:
    lab.configure(
        config={"lab:password": "hunter2-hunter2"}, secret_config=frozenset({"lab:password"})
    ).program("""
        password = pulumi.Config().require_secret("password")
        a = Box("a", {"password": password, "deep": {"in": [password]}, "token": "t"})
        Box("b", {"derived": password.apply(lambda p: p.upper())}, Opts(additional_secret_outputs=["arn"]))
        pulumi.export("password", password)
        pulumi.export("token", a.tokenValue if hasattr(a, "tokenValue") else None)
        pulumi.export("plain", "plain")
    """)
    result = lab.run("up")
    assert result.ok, result.failures
    assert result.outputs["password"] == SECRET
    assert result.outputs["plain"] == "plain"
    inputs = {resource.name: resource.inputs for resource in result.resources}
    assert inputs["a"]["password"] == SECRET
    assert inputs["b"]["derived"] == SECRET
    assert lab.engine.outputs(lab.request)["password"] == SECRET
    shown = lab.engine.outputs(lab.configure(show_secrets=True).request)
    assert shown["password"] == "hunter2-hunter2"
    for file in lab.request.state_file.parent.iterdir():
        content = file.read_text().lower()
        assert "hunter2" not in content, file
        assert "token of a" not in content, file
    assert "hunter2" not in str(lab.events)
    state = lab.resources()
    assert "ciphertext" in state["a"]["inputs"]["password"]
    assert "ciphertext" in state["a"]["outputs"]["password"]
    assert "ciphertext" in state["a"]["outputs"]["tokenValue"]
    assert "ciphertext" in state["b"]["outputs"]["arn"]
    assert state["b"]["additionalSecretOutputs"] == ["arn"]
    # Nothing changed, so nothing is encrypted again.
    assert lab.up().changes.total == 0
    assert lab.resources()["a"]["inputs"] == state["a"]["inputs"]
    assert lab.resources()["b"]["outputs"] == state["b"]["outputs"]


def test_random_passphrase_is_stored_beside_the_state(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    lab.up('Box("a", {"password": pulumi.Output.secret("hunter2")})\n')
    file = lab.request.state_file.with_name("dev.json.passphrase")
    assert file.stat().st_mode & 0o777 == 0o600
    assert str(file) in lab.messages("warning")
    assert "hunter2" not in lab.request.state_file.read_text()
    assert lab.up().changes.total == 0
    assert str(file) not in lab.messages("warning")


def test_state_without_secrets_needs_no_passphrase(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    lab.up('Box("a")\n')
    assert "secrets_providers" not in lab.export()
    assert not lab.request.state_file.with_name("dev.json.passphrase").exists()


def test_removed_resources_are_deleted_dependents_first(lab: Lab) -> None:
    lab.up(
        'a = Box("a")\nb = Box("b", {"of": a.arn})\nc = Box("c", {}, Opts(depends_on=[b]))\nBox("stays")\n'
    )
    result = lab.up('Box("stays")\n')
    assert result.changes == Changes(delete=3, same=2)
    assert [call["name"] for call in lab.calls("delete")] == ["c", "b", "a"]
    assert lab.names() == ["stays"]


def test_destroy_deletes_in_reverse_order_and_providers_last(lab: Lab) -> None:
    lab.up("""
        p = BoxProvider("south", "south")
        g = Group("g", Opts(providers=[p]))
        a = Box("a", {}, Opts(parent=g))
        b = Box("b", {"of": a.arn})
        Box("c", {"of": b.arn})
    """)
    assert lab.run("destroy").ok
    order = [name for op, name in lab.steps() if op == "delete"]
    assert order.index("c") < order.index("b") < order.index("a") < order.index("g")
    assert order.index("a") < order.index("south")
    assert order[-1] == "lab-dev"
    regions = {call["name"]: call["region"] for call in lab.calls("delete")}
    assert regions == {"a": "south", "b": "nowhere", "c": "nowhere"}


def test_independent_resources_are_created_in_parallel_within_the_limit(lab: Lab) -> None:
    lab.fault("create", "*", delay=0.3, times=6)
    lab.configure(parallel=3).up('for i in range(6):\n    Box(f"b{i}")\n')
    times = [(call["start"], call["end"]) for call in lab.calls("create")]
    most = max(sum(s <= start < e for s, e in times) for start, _ in times)
    assert most == 3
    lab.forget_calls()
    lab.no_faults()
    lab.fault("delete", "*", delay=0.3, times=6)
    assert lab.run("destroy").ok
    times = [(call["start"], call["end"]) for call in lab.calls("delete")]
    assert max(sum(s <= start < e for s, e in times) for start, _ in times) == 3


def test_checkpoint_is_pulumi_deployment_json(lab: Lab) -> None:
    lab.up("""
        a = Box("a", {"size": 1})
        Box("b", {"of": a.arn}, Opts(protect=True, custom_timeouts=pulumi.CustomTimeouts(create="1h30m")))
    """)
    document = json.loads(lab.request.state_file.read_text())
    assert document["version"] == 3
    state = lab.resources()
    a, b = state["a"], state["b"]
    provider = state["default"]
    assert b["urn"] == "urn:pulumi:dev::lab::box:index:Box::b"
    assert b["type"] == "box:index:Box"
    assert b["custom"] is True
    assert b["id"] == b["outputs"]["arn"].removeprefix("arn:")
    assert b["inputs"] == {"of": a["outputs"]["arn"]}
    assert b["parent"] == "urn:pulumi:dev::lab::pulumi:pulumi:Stack::lab-dev"
    assert b["dependencies"] == [a["urn"]]
    assert b["propertyDependencies"] == {"of": [a["urn"]]}
    assert b["provider"] == f"{provider['urn']}::{provider['id']}"
    assert b["protect"] is True
    assert b["customTimeouts"] == {"create": 5400}
    assert b["created"] == b["modified"]
    assert b["created"].endswith("Z")
    assert b["sourcePosition"] == "project:///program/__main__.py#6"
    assert "protect" not in a
    assert [call["timeout"] for call in lab.calls("create")] == [0.0, 5400.0]
    assert lab.request.state_file.stat().st_mode & 0o777 == 0o600


def test_dynamic_resources_run_with_the_interpreter_of_the_program(lab: Lab) -> None:
    lab.configure(config={"lab:greeting": "hello"}).program("""
        from pulumi.dynamic import (
            ConfigureRequest, CreateResult, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult
        )

        class Greeter(ResourceProvider):
            def configure(self, req: ConfigureRequest):
                self.greeting = req.config.require("greeting")
            def create(self, props):
                return CreateResult("g-1", {**props, "text": f"{self.greeting} {props['who']}"})
            def diff(self, id, olds, news):
                return DiffResult(changes=olds["who"] != news["who"], replaces=[])
            def update(self, id, olds, news):
                return UpdateResult({**news, "text": f"{self.greeting} {news['who']}"})
            def read(self, id, props):
                return ReadResult(id, props)

        class Greeting(Resource):
            text: pulumi.Output[str]
            def __init__(self, name, who):
                super().__init__(Greeter(), name, {"who": who, "text": None})

        pulumi.export("text", Greeting("g", pulumi.Output.secret(pulumi.Config().get("who") or "you")).text)
        pulumi.export("from_box", Greeting("h", Box("a").arn).text)
    """)
    assert lab.run("preview").ok
    result = lab.run("up", show_secrets=True)
    assert result.ok, (result.failures, result.diagnostics)
    assert result.outputs["text"] == "hello you"
    assert result.outputs["from_box"].startswith("hello arn:a-")
    # The provider does not know secrets, so the engine keeps the mark.
    assert "ciphertext" in lab.resources()["g"]["outputs"]["who"]
    assert lab.up().changes.total == 0
    changed = lab.configure(config={"lab:greeting": "hello", "lab:who": "me"}).run("up", show_secrets=True)
    assert changed.changes.update == 1
    assert changed.outputs["text"] == "hello me"
    assert lab.run("refresh").ok
    assert lab.run("destroy").ok


def test_functions_are_called_and_their_failures_are_reported(lab: Lab) -> None:
    lab.configure(config={"box:region": "north"}).up("""
        found = pulumi.runtime.invoke("box:index:lookup", {"question": "why"})
        pulumi.export("found", found.value)
    """)
    assert lab.engine.outputs(lab.request)["found"] == {"question": "why", "region": "north"}
    lab.program('pulumi.runtime.invoke("box:index:fail", {})\n')
    result = lab.run("up")
    assert not result.ok
    assert "the function does not feel like it" in lab.messages("error")
    assert "box_provider.py" not in lab.messages("error")


def test_resource_can_be_read_without_being_managed(lab: Lab) -> None:
    lab.up('Box("a", {"size": 7})\n')
    identifier = lab.resources()["a"]["id"]
    reader = f"""
        class Known(pulumi.CustomResource):
            size: pulumi.Output[int]
            def __init__(self, name):
                super().__init__("box:index:Box", name, {{"size": None}}, Opts(id="{identifier}"))
        Box("a", {{"size": 7}})
        pulumi.export("size", Known("known").size)
    """
    assert lab.up(reader).outputs == {"size": 7}
    assert lab.resources()["known"]["external"] is True
    assert lab.run("destroy").ok
    assert len(lab.calls("delete")) == 1


def test_provider_instances_have_their_own_configuration(lab: Lab) -> None:
    lab.configure(config={"box:region": "home"}).up("""
        south = BoxProvider("south", "south")
        west = BoxProvider("west", pulumi.Output.from_input("west"))
        pulumi.export("regions", [
            Box("a").region,
            Box("b", {}, Opts(provider=south)).region,
            Box("c", {}, Opts(provider=west)).region,
        ])
    """)
    assert lab.engine.outputs(lab.request)["regions"] == ["home", "south", "west"]
    state = lab.resources()
    assert state["default"]["inputs"] == {"region": "home"}
    assert state["a"]["provider"].startswith("urn:pulumi:dev::lab::pulumi:providers:box::default::")
    assert state["b"]["provider"] == f"{state['south']['urn']}::{state['south']['id']}"


def test_provider_with_unknown_configuration_is_not_called_in_a_preview(lab: Lab) -> None:
    lab.program("""
        first = Box("first")
        p = BoxProvider("p", first.arn)
        Box("second", {"size": 1}, Opts(provider=p))
    """)
    assert lab.run("preview").changes == Changes(create=4)
    assert [call["name"] for call in lab.calls("configure")] == ["nowhere"]
    lab.forget_calls()
    lab.up()
    assert lab.resources()["second"]["outputs"]["region"].startswith("arn:first-")


def test_refresh_records_drift_and_drops_deleted_resources(lab: Lab) -> None:
    lab.up("""
        a = Box("a", {"size": 1})
        Box("b", {"of": a.arn})
        Box("gone")
        Box("child", {}, Opts(depends_on=[a]))
    """)
    for identifier, thing in lab.things().items():
        file = lab.cloud / "things" / f"{identifier}.json"
        if thing["urn"].endswith("::gone"):
            file.unlink()
        elif thing["urn"].endswith("::a"):
            file.write_text(json.dumps({**thing, "inputs": {"size": 5}}))
    result = lab.run("refresh")
    assert result.ok
    assert result.changes == Changes(update=1, delete=1, same=3)
    assert lab.resources()["a"]["inputs"] == {"size": 5}
    assert "gone" not in lab.resources()
    # The next run repairs both.
    assert lab.up().changes == Changes(create=1, update=1, same=3)
    assert lab.run("refresh").changes == Changes(same=5)


def test_targets_limit_what_a_run_touches(lab: Lab) -> None:
    text = 'a = Box("a", {"size": %d})\nb = Box("b", {"size": %d, "of": a.arn})\n'
    lab.up(text % (1, 1))
    lab.program(text % (2, 2))
    result = lab.run("up", targets=("urn:pulumi:dev::lab::box:index:Box::b",))
    assert result.ok
    assert result.changes == Changes(update=1, same=2)
    assert lab.resources()["a"]["inputs"] == {"size": 1}
    assert lab.resources()["b"]["inputs"]["size"] == 2
    assert lab.resources()["b"]["inputs"]["of"].startswith("arn:a-")
    with pytest.raises(InputError, match="::b needs it and is not a target"):
        lab.run("destroy", targets=("*::a",))
    assert lab.run("destroy", targets=("*::b",)).changes == Changes(delete=1)
    assert lab.names() == ["a"]


def test_new_resource_that_is_not_a_target_is_left_out(lab: Lab) -> None:
    lab.program('a = Box("a")\nBox("b", {"of": a.arn})\nBox("c")\n')
    result = lab.run("up", targets=("*::c",))
    assert result.ok, result.failures
    assert lab.names() == ["c"]
    result = lab.run("up", targets=("*::b",))
    assert not result.ok
    assert "is not among the targets" in lab.errors()["b"]


def test_program_output_becomes_diagnostics(lab: Lab) -> None:
    lab.up('print("hello from the program")\npulumi.log.warn("careful")\nBox("a")\n')
    assert "hello from the program" in lab.messages("info")
    warnings = [e for e in lab.events if isinstance(e, DiagnosticEvent) and e.severity == "warning"]
    assert [event.message for event in warnings] == ["careful"]


def test_stack_outputs_keep_nested_values_and_resources(lab: Lab) -> None:
    result = lab.up("""
        a = Box("a", {"size": 1})
        pulumi.export("nested", {"list": [1, 2.5, None, True, "x"], "arn": a.arn})
        pulumi.export("box", a)
    """)
    assert result.outputs["nested"]["list"] == [1, 2.5, None, True, "x"]
    assert result.outputs["nested"]["arn"].startswith("arn:a-")
    assert result.outputs["box"]["urn"].endswith("::a")


def test_missing_program_is_refused_first(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no __main__\.py"):
        lab.run("up", program_dir=tmp_path)
    assert not lab.request.state_file.exists()


def test_request_can_carry_the_passphrase(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    lab.configure(env={**lab.request.env, "PULUMI_CONFIG_PASSPHRASE": "given"})
    lab.up('pulumi.export("s", pulumi.Output.secret("hunter2"))\n')
    assert not lab.request.state_file.with_name("dev.json.passphrase").exists()
    lab.configure(show_secrets=True)
    assert lab.engine.outputs(lab.request) == {"s": "hunter2"}
    with pytest.raises(PassphraseError, match="does not match"):
        lab.run("up", env={**lab.request.env, "PULUMI_CONFIG_PASSPHRASE": "other"})


def test_resources_created_in_an_apply_belong_to_the_stack(lab: Lab) -> None:
    lab.up("""
        def more(arn):
            inner = Box("inner", {"of": arn})
            return inner.arn.apply(lambda arn: Box("innermost", {"of": arn}).arn)

        pulumi.export("arn", Box("outer").arn.apply(more))
    """)
    assert lab.names() == ["inner", "innermost", "outer"]
    assert lab.engine.outputs(lab.request)["arn"].startswith("arn:innermost-")
    assert lab.up().changes == Changes(same=4)


def test_processes_of_a_run_are_forked_from_one_that_has_imported_the_sdk(lab: Lab) -> None:
    lab.up(
        """
        import os
        print("forked from", open(f"/proc/{os.getppid()}/cmdline").read().strip("\\0"))
        Box("a")
        """
    )
    assert "forked from gpufleet-fork-server" in lab.messages("info")
