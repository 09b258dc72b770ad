"""URNs and aliases."""

from __future__ import annotations

from gpufleet.engine.embedded import urns
from gpufleet.engine.embedded.urns import AliasResolver, AliasSpec

STACK = "urn:pulumi:dev::proj::pulumi:pulumi:Stack::proj-dev"
GROUP = "urn:pulumi:dev::proj::my:mod:Group::g"


def test_urn_has_the_types_of_its_parents_except_the_stack() -> None:
    assert urns.make_urn("dev", "proj", STACK, "a:b:C", "x") == "urn:pulumi:dev::proj::a:b:C::x"
    assert urns.make_urn("dev", "proj", GROUP, "a:b:C", "x") == "urn:pulumi:dev::proj::my:mod:Group$a:b:C::x"
    assert urns.make_urn("dev", "proj", "", "a:b:C", "x") == "urn:pulumi:dev::proj::a:b:C::x"


def test_name_may_contain_the_delimiter() -> None:
    urn = urns.make_urn("dev", "proj", GROUP, "a:b:C", "x::y")
    assert urns.urn_name(urn) == "x::y"
    assert urns.urn_type(urn) == "a:b:C"
    assert urns.qualified_type(urn) == "my:mod:Group$a:b:C"


def test_default_providers_are_named_as_in_pulumi() -> None:
    assert urns.default_provider_name("") == "default"
    assert urns.default_provider_name("7.51.1") == "default_7_51_1"
    assert urns.default_provider_name("1.0.0-alpha.1") == "default_1_0_0_alpha_1"
    assert urns.is_default_provider("urn:pulumi:dev::proj::pulumi:providers:aws::default_7_51_1")
    assert not urns.is_default_provider("urn:pulumi:dev::proj::pulumi:providers:aws::mine")
    assert not urns.is_default_provider("urn:pulumi:dev::proj::a:b:C::default")


def test_provider_reference_splits_at_its_last_delimiter() -> None:
    assert urns.split_reference("urn:pulumi:d::p::pulumi:providers:x::n::id-1") == (
        "urn:pulumi:d::p::pulumi:providers:x::n",
        "id-1",
    )


def test_alias_changes_only_the_given_parts() -> None:
    resolver = AliasResolver("dev", "proj")
    found = resolver.candidates(
        "x",
        "a:b:C",
        GROUP,
        (
            AliasSpec(name="y"),
            AliasSpec(type="a:b:Old"),
            AliasSpec(no_parent=True),
            AliasSpec(stack="prod", project="other"),
            "urn:pulumi:dev::proj::z:z:Z::z",
        ),
    )
    assert found == [
        "urn:pulumi:dev::proj::my:mod:Group$a:b:C::y",
        "urn:pulumi:dev::proj::my:mod:Group$a:b:Old::x",
        "urn:pulumi:dev::proj::a:b:C::x",
        "urn:pulumi:prod::other::my:mod:Group$a:b:C::x",
        "urn:pulumi:dev::proj::z:z:Z::z",
    ]


def test_children_inherit_the_alias_of_their_parent() -> None:
    resolver = AliasResolver("dev", "proj")
    new = "urn:pulumi:dev::proj::my:mod:Group::new"
    resolver.used[new] = "urn:pulumi:dev::proj::my:mod:Group::old"
    assert resolver.candidates("new-role", "a:b:C", new, ()) == [
        "urn:pulumi:dev::proj::my:mod:Group$a:b:C::old-role"
    ]
    assert resolver.candidates("role", "a:b:C", new, ()) == ["urn:pulumi:dev::proj::my:mod:Group$a:b:C::role"]
