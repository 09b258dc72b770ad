"""Replacements: their order, their dependents, and the effect of options."""

from __future__ import annotations

import pytest

from gpufleet.engine.api import Changes

from .conftest import Lab


def cloud_order(lab: Lab) -> list[tuple[str, str]]:
    return [(call["op"], call["name"]) for call in lab.calls("create", "update", "delete")]


def test_replacement_is_created_before_the_old_resource_is_deleted(lab: Lab) -> None:
    lab.up('a = Box("a", {"zone": "x"})\nBox("b", {"of": a.arn})\n')
    old = lab.resources()["a"]["id"]
    lab.forget_calls()
    result = lab.up('a = Box("a", {"zone": "y"})\nBox("b", {"of": a.arn})\n')
    assert result.changes == Changes(replace=1, update=1, same=1)
    assert cloud_order(lab) == [("create", "a"), ("update", "b"), ("delete", "a")]
    assert lab.calls("delete")[0]["id"] == old
    assert lab.real_steps() == [
        ("create-replacement", "a"), ("replace", "a"), ("update", "b"), ("delete-replaced", "a"),
    ]  # fmt: skip
    assert lab.resources()["a"]["id"] != old
    assert lab.names() == ["a", "b"]


def test_provider_can_require_deletion_first_and_dependents_go_first(lab: Lab) -> None:
    text = """
        a = Box("a", {"slot": NUMBER})
        b = Box("b", {"slot": a.arn})
        Box("c", {"of": a.arn})
        Box("d", {"zone": b.arn})
    """
    lab.up(text.replace("NUMBER", "1"))
    lab.forget_calls()
    result = lab.up(text.replace("NUMBER", "2"))
    assert result.changes == Changes(replace=3, update=1, same=1)
    order = cloud_order(lab)
    # d and b would be replaced by the change, c would not.
    assert order[:4] == [("delete", "d"), ("delete", "b"), ("delete", "a"), ("create", "a")]
    assert sorted(order[4:]) == [("create", "b"), ("create", "d"), ("update", "c")]
    assert order.index(("create", "b")) < order.index(("create", "d"))
    assert lab.names() == ["a", "b", "c", "d"]
    assert not any("pendingReplacement" in resource for resource in lab.export()["resources"])


@pytest.mark.parametrize(("option", "first"), [("True", "delete"), ("False", "create"), ("None", "create")])
def test_delete_before_replace_option_overrides_the_provider(lab: Lab, option: str, first: str) -> None:
    lab.up('Box("a", {"zone": "x"})\n')
    lab.forget_calls()
    lab.up(f'Box("a", {{"zone": "y"}}, Opts(delete_before_replace={option}))\n')
    assert cloud_order(lab)[0] == (first, "a")


def test_ignored_changes_keep_the_old_value(lab: Lab) -> None:
    options = 'Opts(ignore_changes=["size", "deep.x", "added"])'
    lab.up(f'Box("a", {{"size": 1, "deep": {{"x": 1, "y": 1}}}}, {options})\n')
    assert (
        lab.up(f'Box("a", {{"size": 9, "deep": {{"x": 9, "y": 1}}, "added": 1}}, {options})\n').changes.total
        == 0
    )
    lab.up(f'Box("a", {{"size": 9, "deep": {{"x": 9, "y": 2}}}}, {options})\n')
    assert lab.resources()["a"]["inputs"] == {"size": 1, "deep": {"x": 1, "y": 2}}


def test_replace_on_changes_turns_an_update_into_a_replacement(lab: Lab) -> None:
    lab.up('Box("a", {"size": 1, "other": 1}, Opts(replace_on_changes=["size"]))\n')
    assert (
        lab.up('Box("a", {"size": 1, "other": 2}, Opts(replace_on_changes=["size"]))\n').changes.update == 1
    )
    assert (
        lab.up('Box("a", {"size": 2, "other": 2}, Opts(replace_on_changes=["size"]))\n').changes.replace == 1
    )


def test_protected_resource_is_neither_deleted_nor_replaced(lab: Lab) -> None:
    lab.up('Box("a", {"zone": "x"}, Opts(protect=True))\nBox("b")\n')
    lab.program('Box("a", {"zone": "y"}, Opts(protect=True))\nBox("b", {"size": 1})\n')
    replaced = lab.run("up")
    assert not replaced.ok
    assert "protected" in lab.errors()["a"]
    lab.program('Box("b", {"size": 1})\n')
    assert not lab.run("up").ok
    assert "protected" in lab.errors()["a"]
    destroyed = lab.run("destroy")
    assert not destroyed.ok
    assert lab.names() == ["a"]
    assert lab.resources()["a"]["protect"] is True
    # Removing `protect` in the program is enough.
    lab.up('Box("a", {"zone": "x"})\n')
    assert lab.run("destroy").ok
    assert lab.names() == []


def test_protection_is_inherited_from_a_component(lab: Lab) -> None:
    lab.up("""
        g = Group("g", Opts(protect=True))
        Box("a", {}, Opts(parent=g))
        Box("b", {}, Opts(parent=g, protect=False))
    """)
    assert lab.resources()["a"]["protect"] is True
    assert "protect" not in lab.resources()["b"]


def test_retained_resource_leaves_the_state_and_stays_in_the_cloud(lab: Lab) -> None:
    lab.up('Box("a", {}, Opts(retain_on_delete=True))\nBox("b")\n')
    result = lab.up("")
    assert result.changes == Changes(delete=2, same=1)
    assert lab.names() == ["a"]
    assert "a" not in lab.resources()


def test_resource_deleted_with_another_is_not_deleted_itself(lab: Lab) -> None:
    lab.up('a = Box("a")\nBox("b", {}, Opts(deleted_with=a))\n')
    assert lab.run("destroy").ok
    assert [call["name"] for call in lab.calls("delete")] == ["a"]
    assert lab.export()["resources"] == []


def test_renamed_and_moved_resources_are_found_by_their_aliases(lab: Lab) -> None:
    lab.up("""
        g = Group("old")
        Box("old-child", {"size": 1}, Opts(parent=g))
        Box("x", {"size": 1})
        Box("y", {"size": 1})
    """)
    before = set(lab.things())
    result = lab.up("""
        g = Group("new", Opts(aliases=[pulumi.Alias(name="old")]))
        Box("new-child", {"size": 1}, Opts(parent=g))
        Box("z", {"size": 1}, Opts(aliases=[pulumi.Alias(name="x")]))
        Box("y", {"size": 1}, Opts(parent=g, aliases=["urn:pulumi:dev::lab::box:index:Box::y"]))
    """)
    assert result.changes == Changes(same=5)
    assert set(lab.things()) == before
    assert {"new", "new-child", "z"} <= set(lab.resources())
    assert not {"old", "old-child", "x"} & set(lab.resources())
    assert lab.up().changes == Changes(same=5)


def test_existing_resource_is_imported_and_then_changed(lab: Lab) -> None:
    lab.up('Box("made", {"size": 1}, Opts(retain_on_delete=True))\n')
    identifier = lab.resources()["made"]["id"]
    lab.up("")
    lab.up(f'Box("taken", {{"size": 2}}, Opts(import_="{identifier}"))\n')
    assert lab.resources()["taken"]["id"] == identifier
    assert lab.resources()["taken"]["inputs"] == {"size": 2}
    assert len(lab.things()) == 1
    assert lab.up().changes.total == 0
    lab.program('Box("other", {"size": 2}, Opts(import_="no-such-thing"))\n')
    assert not lab.run("up").ok
    assert "no-such-thing" in lab.errors()["other"]


def test_changed_provider_configuration_can_replace_resources(lab: Lab) -> None:
    text = 'p = BoxProvider("p", "{0}")\nBox("a", {{"size": 1}}, Opts(provider=p))\n'
    lab.up(text.format("south"))
    lab.forget_calls()
    result = lab.up(text.format("west"))
    assert result.changes == Changes(replace=2, same=1)
    assert lab.resources()["a"]["outputs"]["region"] == "west"
    # The provider that created the old one deletes it.
    assert [call["region"] for call in lab.calls("delete")] == ["south"]


def test_provider_without_a_diff_has_its_inputs_compared(lab: Lab) -> None:
    lab.up('Box("v", {"size": 1, "list": [1, 2]}, kind="Vague")\n')
    assert lab.up().changes.total == 0
    result = lab.up('Box("v", {"size": 1, "list": [1, 3]}, kind="Vague")\n')
    assert result.changes.update == 1
    assert [r.diff for r in result.resources if r.name == "v"] == [("list",)]


def test_generated_names_survive_updates_and_change_with_replacements(lab: Lab) -> None:
    lab.up('Box("n", {"size": 1, "zone": "x"}, kind="Named")\n')
    label = lab.resources()["n"]["inputs"]["label"]
    lab.up('Box("n", {"size": 2, "zone": "x"}, kind="Named")\n')
    assert lab.resources()["n"]["inputs"]["label"] == label
    lab.up('Box("n", {"size": 2, "zone": "y"}, kind="Named")\n')
    assert lab.resources()["n"]["inputs"]["label"] != label


def test_resource_that_no_longer_depends_on_a_replacement_is_unchanged(lab: Lab) -> None:
    lab.up('a = Box("a", {"slot": 1})\nBox("b", {"slot": a.arn})\n')
    before = lab.resources()["b"]["id"]
    lab.fault("delete", "a", delay=1)
    arn = lab.resources()["a"]["outputs"]["arn"]
    lab.up(f'Box("b", {{"slot": "{arn}"}})\nBox("a", {{"slot": 2}})\n')
    assert lab.resources()["b"]["id"] == before
    assert lab.names() == ["a", "b"]


def test_failed_first_deletion_of_a_replacement_changes_nothing(lab: Lab) -> None:
    text = 'a = Box("a", {{"slot": {0}}})\nBox("b", {{"slot": a.arn}})\n'
    lab.up(text.format(1))
    before = {name: lab.resources()[name]["id"] for name in ("a", "b")}
    lab.fault("delete", "b", message="in use")
    lab.program(text.format(2))
    assert not lab.run("up").ok
    assert {name: lab.resources()[name]["id"] for name in ("a", "b")} == before
    assert lab.names() == ["a", "b"]
    assert lab.up().changes == Changes(replace=2, same=1)


def test_resource_deleted_with_a_replaced_one_is_replaced_without_a_delete(lab: Lab) -> None:
    text = 'a = Box("a", {{"slot": {0}}})\nBox("b", {{}}, Opts(deleted_with=a))\n'
    lab.up(text.format(1))
    lab.forget_calls()
    assert lab.up(text.format(2)).changes == Changes(replace=2, same=1)
    assert [call["name"] for call in lab.calls("delete")] == ["a"]
