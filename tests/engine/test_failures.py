"""Failures of a provider, of the program, and of its requests."""

from __future__ import annotations

import pytest

from gpufleet.engine.api import Changes
from gpufleet.engine.errors import UnsupportedError

from .conftest import Lab


def test_dependents_of_a_failed_resource_are_skipped_and_the_rest_is_finished(lab: Lab) -> None:
    lab.fault("create", "a", message="the cloud is full")
    lab.program("""
        a = Box("a", {"size": 1})
        b = Box("b", {"of": a.arn})
        c = Box("c", {}, Opts(depends_on=[b]))
        other = Box("other")
        Box("more", {"of": other.arn})
        pulumi.export("arn", a.arn)
        pulumi.export("other", other.arn)
    """)
    result = lab.run("up")
    assert not result.ok
    assert lab.errors() == {
        "a": "the cloud is full",
        "b": "skipped, because urn:pulumi:dev::lab::box:index:Box::a failed",
        "c": "skipped, because urn:pulumi:dev::lab::box:index:Box::b failed",
    }
    assert [event.name for event in result.failures] == ["a", "b", "c"]
    assert lab.names() == ["more", "other"]
    assert set(lab.resources()) == {"lab-dev", "default", "more", "other"}
    assert "pending_operations" not in lab.export()
    assert set(result.outputs) == {"other"}
    assert lab.up().changes == Changes(create=3, same=3)


def test_failed_check_names_the_property_and_the_reason(lab: Lab) -> None:
    lab.program('Box("a", {"size": "bad"})\n')
    for verb in ("preview", "up"):
        assert not lab.run(verb).ok
        assert lab.errors() == {"a": "size: 'bad' is no size: give a number"}
    assert lab.names() == []


def test_provider_traceback_is_not_shown(lab: Lab) -> None:
    lab.fault("create", "a", message="plain words: with a colon")
    lab.fault("check", "b", message="no check today")
    lab.program('Box("a")\nBox("b")\n')
    lab.run("up")
    assert lab.errors() == {"a": "plain words: with a colon", "b": "no check today"}
    assert "Traceback" not in str(lab.events)


def test_nothing_is_deleted_after_a_failure_until_a_run_succeeds(lab: Lab) -> None:
    lab.up('Box("gone")\nBox("a", {"zone": "x"})\n')
    lab.fault("create", "b", message="no")
    lab.program('Box("a", {"zone": "y"})\nBox("b")\n')
    result = lab.run("up")
    assert not result.ok
    assert lab.names() == ["a", "a", "gone"]
    assert "nothing was deleted" in lab.messages("warning")
    waiting = [r["urn"][-1] for r in lab.export()["resources"] if r.get("delete")]
    assert waiting == ["a"]
    lab.no_faults()
    result = lab.up()
    assert ("delete-replaced", "a") in lab.steps()
    assert result.changes == Changes(create=1, delete=1, same=2)
    assert lab.names() == ["a", "b"]
    assert not any(resource.get("delete") for resource in lab.export()["resources"])


def test_failed_update_keeps_the_old_inputs_and_is_retried(lab: Lab) -> None:
    lab.up('Box("a", {"size": 1})\n')
    lab.fault("update", "a", message="busy")
    lab.program('Box("a", {"size": 2})\n')
    assert not lab.run("up").ok
    assert lab.resources()["a"]["inputs"] == {"size": 1}
    assert lab.up().changes.update == 1
    assert lab.resources()["a"]["inputs"] == {"size": 2}


def test_failed_delete_keeps_the_resource_and_its_dependencies(lab: Lab) -> None:
    lab.up('a = Box("a")\nb = Box("b", {"of": a.arn})\nBox("c")\n')
    lab.fault("delete", "b", message="in use")
    result = lab.run("destroy")
    assert not result.ok
    assert lab.errors()["b"] == "in use"
    assert lab.errors()["a"] == "kept, because urn:pulumi:dev::lab::box:index:Box::b was not deleted"
    assert lab.names() == ["a", "b"]
    assert {"a", "b", "default", "lab-dev"} == set(lab.resources())
    assert lab.run("destroy").ok
    assert lab.names() == []


def test_engine_error_during_a_deletion_ends_the_run(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpufleet.engine.embedded.removal import Removal

    lab.up('a = Box("a")\nBox("b", {"of": a.arn})\n')

    def broken(*_: object) -> bool:
        raise RuntimeError("a fault")

    monkeypatch.setattr(Removal, "_delete", broken)
    with pytest.raises(RuntimeError, match="a fault"):
        lab.run("destroy")
    monkeypatch.undo()
    assert lab.names() == ["a", "b"]
    assert {"a", "b"} <= set(lab.resources())


def test_resource_that_fails_to_initialize_is_kept_with_its_errors(lab: Lab) -> None:
    lab.fault("create", "a", init="it never answered")
    lab.program('a = Box("a", {"size": 1})\nBox("b", {"of": a.arn})\n')
    result = lab.run("up")
    assert not result.ok
    assert lab.errors()["a"] == "it never answered"
    state = lab.resources()["a"]
    assert state["initErrors"] == ["it never answered"]
    assert state["id"] in lab.things()
    assert state["outputs"]["arn"] == f"arn:{state['id']}"
    assert "b" not in lab.resources()
    # Another run continues with the same resource.
    result = lab.up()
    assert result.changes == Changes(create=1, update=1, same=1)
    assert len(lab.things()) == 2
    assert "initErrors" not in lab.resources()["a"]


def test_large_resource_that_fails_to_initialize_is_kept(lab: Lab) -> None:
    # It is in the trailers of the response; grpc accepts 8 KiB by default.
    text = "x" * 200_000
    lab.fault("create", "a", init="it never answered")
    lab.program(f'Box("a", {{"text": "{text}"}})\n')
    assert not lab.run("up").ok
    assert lab.errors()["a"] == "it never answered"
    assert lab.resources()["a"]["outputs"]["text"] == text
    lab.up()
    assert lab.names() == ["a"]


def test_exception_shows_only_frames_of_the_program(lab: Lab) -> None:
    lab.up('Box("old")\n')
    lab.program("""
        def helper(value):
            raise ValueError(f"bad value {value}")

        Box("a")
        helper(42)
    """)
    result = lab.run("up")
    assert not result.ok
    error = lab.messages("error")
    assert "ValueError: bad value 42" in error
    assert 'program/__main__.py", line 9, in <module>' in error
    assert "in helper" in error
    assert "runpy" not in error
    assert "exec_program" not in error
    assert "site-packages" not in error
    # Resources registered before exist, and nothing was deleted.
    assert lab.names() == ["a", "old"]
    assert lab.up('Box("a")\n').changes == Changes(delete=1, same=2)


def test_exception_in_an_apply_fails_the_run(lab: Lab) -> None:
    lab.program('a = Box("a")\npulumi.export("x", a.arn.apply(lambda arn: 1 / 0))\n')
    result = lab.run("up")
    assert not result.ok
    assert "ZeroDivisionError" in lab.messages("error")
    assert lab.names() == ["a"]


def test_syntax_error_and_missing_import_are_reported(lab: Lab) -> None:
    lab.program("def broken(:\n")
    assert not lab.run("preview").ok
    assert "SyntaxError" in lab.messages("error")
    lab.program("import no_such_module\n")
    assert not lab.run("preview").ok
    assert "No module named 'no_such_module'" in lab.messages("error")


def test_duplicate_resource_name_fails_the_program(lab: Lab) -> None:
    lab.program('Box("a")\nBox("a")\n')
    result = lab.run("up")
    assert not result.ok
    assert "two resources have the type box:index:Box and the name 'a'" in lab.messages("error")


def test_package_without_a_plugin_is_reported_with_the_install_command(lab: Lab) -> None:
    lab.program("""
        class Other(pulumi.CustomResource):
            def __init__(self, name):
                super().__init__("nosuch:index:Thing", name, {}, None)
        Other("a")
        Box("b")
    """)
    result = lab.run("preview")
    assert not result.ok
    assert "no provider plugin for package 'nosuch'" in lab.errors()["default"]
    assert "pulumi plugin install resource nosuch" in lab.errors()["default"]
    assert lab.errors()["a"].startswith("skipped")
    assert ("create", "b") in lab.steps()


def test_plugin_that_fails_to_start_is_reported_with_its_output(lab: Lab) -> None:
    script = "import sys; sys.stderr.write('no licence found'); sys.exit(3)"
    lab.configure(providers={"box": (lab.request.providers["box"][0], "-c", script)})
    lab.program('Box("a")\n')
    assert not lab.run("preview").ok
    assert "no licence found" in lab.errors()["default"]


def test_provider_crash_leaves_the_operation_pending(lab: Lab) -> None:
    lab.fault("create", "a", die=True)
    lab.program('Box("a", {"size": 1})\n')
    result = lab.run("up")
    assert not result.ok
    assert "provider 'box' has stopped" in lab.errors()["a"]
    (pending,) = lab.export()["pending_operations"]
    assert pending["type"] == "creating"
    assert pending["resource"]["urn"].endswith("::a")
    lab.up()
    assert (
        "an earlier run did not finish creating urn:pulumi:dev::lab::box:index:Box::a "
        "(its answer was lost, or the run crashed): it was not created"
    ) in lab.messages("warning")
    assert "pending_operations" not in lab.export()


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ('Box("a", {}, Opts(transforms=[lambda args: None]))\n', "resource 'a' has transforms"),
        ("pulumi.runtime.register_resource_transform(lambda args: None)\n", "a stack transform"),
        (
            'pulumi.ComponentResource("box:index:Remote", "r", {}, None, True)\n',
            "resource 'r' is a remote component (box:index:Remote)",
        ),
        ('pulumi.StackReference("organization/other/dev")\n', "stack reference 'organization/other/dev'"),
        (
            """
            binding = pulumi.ResourceHookBinding(before_create=[pulumi.ResourceHook("h", lambda args: None)])
            Box("a", {}, Opts(hooks=binding))
            """,
            "resource hook 'h'",
        ),
        ('Box("a", {"file": pulumi.FileArchive(".")})\n', "a property is an archive"),
        ('Box("a", {}, Opts(replace_with=[Box("b")]))\n', "resource 'a' has the option replace_with"),
        ('Box("a", {}, Opts(replacement_trigger="x"))\n', "resource 'a' has the option replacement_trigger"),
    ],
)  # fmt: skip
def test_features_that_need_the_cli_are_refused_by_name(lab: Lab, program: str, what: str) -> None:
    lab.program(program)
    with pytest.raises(UnsupportedError) as refused:
        lab.run("preview")
    assert what in refused.value.message
    assert "needs the Pulumi CLI" in refused.value.message
    assert "--engine pulumi" in refused.value.remedy
    assert "Traceback" not in str(lab.events)


def test_refused_program_keeps_the_resources_it_created(lab: Lab) -> None:
    lab.program('a = Box("a")\na.arn.apply(lambda _: pulumi.StackReference("organization/other/dev"))\n')
    with pytest.raises(UnsupportedError):
        lab.run("up")
    assert lab.names() == ["a"]
    assert "a" in lab.resources()


def test_program_can_require_a_pulumi_version(lab: Lab) -> None:
    lab.program('pulumi.require_pulumi_version(">=3.100.0")\n')
    assert lab.run("preview").ok
    lab.program('pulumi.require_pulumi_version(">=4.0.0")\n')
    assert not lab.run("preview").ok
    assert "requires >=4.0.0" in lab.messages("error")


def test_disabled_default_provider_is_not_used(lab: Lab) -> None:
    lab.configure(config={"pulumi:disable-default-providers": '["box"]'}).program('Box("a")\n')
    assert not lab.run("preview").ok
    assert "the default provider of 'box' is disabled" in lab.messages("error")
    lab.program('Box("a", {}, Opts(provider=BoxProvider("mine", "here")))\n')
    assert lab.run("preview").ok


def test_stack_is_complete_after_a_finished_up(lab: Lab) -> None:
    lab.program('Box("a")\nBox("b")\n')
    assert lab.engine.is_complete(lab.request)
    lab.fault("create", "b", message="no room")
    assert not lab.run("up").ok
    assert not lab.engine.is_complete(lab.request)
    lab.no_faults()
    lab.up()
    assert lab.engine.is_complete(lab.request)
    lab.program('Box("a", {"size": 2})\nBox("b")\n')
    lab.fault("update", "a", message="no room")
    assert not lab.run("up").ok
    # Existing resources were approved before.
    assert lab.engine.is_complete(lab.request)
