"""Scenarios for both engines: programs in steps."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Scenario:
    """Steps of (verb, program or None to keep it, configuration)."""

    name: str
    steps: list[tuple[str, str | None]]
    config: dict[str, str] = field(default_factory=dict)
    secret: frozenset[str] = frozenset()
    fails: frozenset[int] = frozenset()


CHAIN = """
a = Box("a", {{"size": {size}, "zone": "{zone}"}})
b = Box("b", {{"of": a.arn, "zone": a.id}})
c = Box("c", {{"of": b.arn}})
pulumi.export("arn", c.arn)
"""
SLOTS = """
a = Box("a", {{"slot": "{slot}"}})
b = Box("b", {{"slot": a.arn}})
c = Box("c", {{"of": a.arn}})
d = Box("d", {{"slot": b.arn}}, Opts(depends_on=[c]))
"""
CASCADE = """
a = Box("a", {{"zone": "{zone}", "slot": {slot}}})
b = Box("b", {{"zone": a.arn}}, Opts(delete_before_replace=True))
c = Box("c", {{"slot": b.arn}}, Opts(delete_before_replace=False))
d = Box("d", {{"of": c.arn, "list": [a.id]}}, Opts(replace_on_changes=["list"]))
g = Group("g", Opts(depends_on=[d]))
e = Box("e", {{"size": 1}}, Opts(parent=g, depends_on=[a], deleted_with=b))
"""

SCENARIOS = [
    Scenario(
        "components, configuration and secrets",
        [
            (
                "up",
                """
                cfg = pulumi.Config()
                g = Group("g", props={"note": "hello", "nothing": None})
                inner = Box("g-inner", {"size": 1, "list": [1, 2.5, "x", None, True]}, Opts(parent=g))
                g.register_outputs({"inner": inner.arn})
                a = Box("a", {"size": cfg.require_int("size"), "password": cfg.require_secret("password")})
                b = Box("b", {"of": a.arn, "nested": {"deep": {"arn": inner.arn}}, "token": "t"},
                        Opts(additional_secret_outputs=["arn"], depends_on=[inner]))
                pulumi.export("arn", b.arn)
                pulumi.export("password", a.id.apply(lambda _: cfg.require_secret("password")))
                pulumi.export("nested", {"list": [a.arn, "x"], "box": inner.arn})
                """,
            ),
            ("up", None),
            ("refresh", None),
            ("destroy", None),
        ],
        config={"lab:size": "3", "lab:password": "hunter2", "box:region": "north"},
        secret=frozenset({"lab:password"}),
    ),
    Scenario(
        "update, replacement in a chain, removal",
        [
            ("up", CHAIN.format(size=1, zone="x")),
            ("preview", CHAIN.format(size=2, zone="x")),
            ("up", None),
            ("preview", CHAIN.format(size=2, zone="y")),
            ("up", None),
            ("up", 'a = Box("a", {"size": 2, "zone": "y"})\n'),
            ("up", None),
        ],
    ),
    Scenario(
        "delete before replace takes dependants along",
        [
            ("up", SLOTS.format(slot=1)),
            ("preview", SLOTS.format(slot=2)),
            ("up", None),
            (
                "up",
                'a = Box("a", {"zone": "1"}, Opts(delete_before_replace=True))\nBox("b", {"zone": a.id})\n',
            ),
            (
                "up",
                'a = Box("a", {"zone": "2"}, Opts(delete_before_replace=True))\nBox("b", {"zone": a.id})\n',
            ),
        ],
    ),
    Scenario(
        "explicit providers, default providers, provider changes",
        [
            (
                "up",
                """
                south = BoxProvider("south", "south")
                Box("a", {"size": 1}, Opts(provider=south))
                g = Group("g", Opts(providers={"box": BoxProvider("west", "west")}))
                Box("b", {"size": 1}, Opts(parent=g))
                Box("c", {"size": 1})
                """,
            ),
            (
                "up",
                """
                south = BoxProvider("south", "deep-south")
                Box("a", {"size": 1}, Opts(provider=south))
                g = Group("g", Opts(providers={"box": BoxProvider("west", "west")}))
                Box("b", {"size": 2}, Opts(parent=g))
                Box("c", {"size": 1}, Opts(provider=south))
                """,
            ),
            ("destroy", None),
        ],
        config={"box:region": "home"},
    ),
    Scenario(
        "options: ignoreChanges, replaceOnChanges, protect, retainOnDelete, timeouts, aliases",
        [
            (
                "up",
                """
                Box("ignored", {"size": 1, "deep": {"x": 1, "y": 1}}, Opts(ignore_changes=["size", "deep.x"]))
                Box("replaced", {"size": 1}, Opts(replace_on_changes=["size"]))
                Box("kept", {"size": 1}, Opts(retain_on_delete=True))
                Box("guarded", {"size": 1}, Opts(protect=True))
                slow = pulumi.CustomTimeouts(create="1h30m", delete="90s")
                Box("slow", {"size": 1}, Opts(custom_timeouts=slow))
                g = Group("old-group")
                Box("old-group-box", {"size": 1}, Opts(parent=g))
                Box("old-name", {"size": 1})
                """,
            ),
            (
                "up",
                """
                Box("ignored", {"size": 9, "deep": {"x": 9, "y": 2}}, Opts(ignore_changes=["size", "deep.x"]))
                Box("replaced", {"size": 2}, Opts(replace_on_changes=["size"]))
                Box("guarded", {"size": 2}, Opts(protect=False))
                g = Group("new-group", Opts(aliases=[pulumi.Alias(name="old-group")]))
                Box("new-group-box", {"size": 1}, Opts(parent=g))
                Box("new-name", {"size": 1}, Opts(aliases=[pulumi.Alias(name="old-name")]))
                """,
            ),
            ("up", None),
        ],
    ),
    Scenario(
        "reads, invokes and resource references",
        [
            (
                "up",
                """
                a = Box("a", {"size": 1, "extra": "e"})
                class Known(pulumi.CustomResource):
                    def __init__(self, name, id):
                        super().__init__("box:index:Box", name, {"arn": None}, Opts(id=id))
                k = Known("known", a.id)
                pulumi.export("known", k.arn)
                found = pulumi.runtime.invoke_output("box:index:lookup", {"q": a.arn})
                pulumi.export("found", found)
                Box("refers", {"box": a, "many": [a]})
                """,
            ),
            ("up", None),
            ("destroy", None),
        ],
    ),
    Scenario(
        "a provider that cannot tell compares inputs; names are kept",
        [
            ("up", 'Box("v", {"size": 1}, kind="Vague")\nBox("n", {"size": 1}, kind="Named")\n'),
            ("up", 'Box("v", {"size": 2}, kind="Vague")\nBox("n", {"size": 2}, kind="Named")\n'),
            ("up", None),
        ],
    ),
    Scenario(
        "nested components, moved between parents and renamed by every kind of alias",
        [
            (
                "up",
                """
                outer = Group("outer")
                inner = Group("inner", Opts(parent=outer))
                Box("leaf", {"size": 1}, Opts(parent=inner))
                Box("outer-leaf", {"size": 1}, Opts(parent=outer))
                Box("by-urn", {"size": 1})
                Box("by-name", {"size": 1})
                Box("by-type", {"size": 1}, kind="Vague")
                Box("to-root", {"size": 1}, Opts(parent=outer))
                Box("twice", {"size": 1})
                """,
            ),
            (
                "preview",
                """
                outer = Group("outer-2", Opts(aliases=[pulumi.Alias(name="outer")]))
                other = Group("other")
                inner = Group("inner", Opts(parent=other, aliases=[pulumi.Alias(parent=outer)]))
                Box("leaf", {"size": 1}, Opts(parent=inner))
                Box("outer-2-leaf", {"size": 2}, Opts(parent=outer))
                old = "urn:pulumi:dev::lab::box:index:Box::by-urn"
                Box("by-urn-2", {"size": 1}, Opts(aliases=[old]))
                Box("by-name-2", {"size": 1}, Opts(aliases=[pulumi.Alias(name="by-name")]))
                Box("by-type", {"size": 1}, Opts(aliases=[pulumi.Alias(type_="box:index:Vague")]))
                Box("to-root", {"size": 1}, Opts(aliases=[pulumi.Alias(parent=outer)]))
                thrice = [pulumi.Alias(name="never-was"), pulumi.Alias(name="twice")]
                Box("twice-2", {"size": 1}, Opts(aliases=thrice))
                """,
            ),
            ("up", None),
            ("up", None),
            ("destroy", None),
        ],
    ),
    Scenario(
        "secrets that pass through properties, components and outputs",
        [
            (
                "up",
                """
                hidden = pulumi.Output.secret({"user": "u", "list": [1, {"deep": "d"}]})
                a = Box("a", {"config": hidden, "plain": 1})
                b = Box("b", {"nested": {"x": hidden["user"], "y": [hidden["list"]]}, "token": "t"})
                g = Group("g")
                g.register_outputs({"token": b.arn, "hidden": hidden})
                Box("c", {"of": a.arn, "both": pulumi.Output.all(hidden["user"], b.arn)})
                pulumi.export("hidden", hidden)
                pulumi.export("joined", pulumi.Output.concat(hidden["user"], "@", a.arn))
                pulumi.export("opened", pulumi.Output.unsecret(hidden["user"]))
                """,
            ),
            ("refresh", None),
            (
                "up",
                """
                hidden = pulumi.Output.secret({"user": "v", "list": [1, {"deep": "e"}]})
                a = Box("a", {"config": hidden, "plain": pulumi.Output.secret(1)})
                b = Box("b", {"nested": {"x": "open now", "y": []}, "token": "t"})
                """,
            ),
            ("destroy", None),
        ],
    ),
    Scenario(
        "what is not known during a preview, and what comes of it",
        [
            (
                "preview",
                """
                a = Box("a", {"size": 1})
                text = pulumi.Output.concat("arn ", a.arn)
                b = Box("b", {"list": [a.arn, "x"], "map": {"k": a.arn}, "text": text})
                a.arn.apply(lambda arn: Box("only-in-an-up", {"of": arn}))
                Box("zoned", {"zone": a.arn}, Opts(depends_on=[b]))
                pulumi.export("list", b.id.apply(lambda text: [text]))
                """,
            ),
            ("up", None),
            (
                "preview",
                """
                a = Box("a", {"size": 1, "zone": "new"})
                text = pulumi.Output.concat("arn ", a.arn)
                b = Box("b", {"list": [a.arn, "x"], "map": {"k": a.arn}, "text": text})
                a.arn.apply(lambda arn: Box("only-in-an-up", {"of": arn}))
                Box("zoned", {"zone": a.arn}, Opts(depends_on=[b]))
                """,
            ),
            ("up", None),
        ],
    ),
    Scenario(
        "replacement in cascade: create first, delete first and the option against the provider",
        [
            ("up", CASCADE.format(zone="x", slot=1)),
            ("preview", CASCADE.format(zone="y", slot=1)),
            ("up", None),
            ("preview", CASCADE.format(zone="y", slot=2)),
            ("up", None),
            ("up", CASCADE.format(zone="z", slot=3)),
            ("refresh", None),
            ("destroy", None),
        ],
    ),
    Scenario(
        "what is retained, deleted with another, protected or taken from a component",
        [
            (
                "up",
                """
                g = Group("g", Opts(protect=True))
                Box("guarded", {"size": 1}, Opts(parent=g))
                Box("free", {"size": 1}, Opts(parent=g, protect=False))
                host = Box("host", {"size": 1})
                Box("guest", {"size": 1}, Opts(deleted_with=host))
                Box("kept", {"zone": "x"}, Opts(retain_on_delete=True))
                """,
            ),
            (
                "up",
                """
                g = Group("g", Opts(protect=True))
                Box("guarded", {"size": 2}, Opts(parent=g))
                host = Box("host", {"zone": "moved"})
                Box("guest", {"size": 1}, Opts(deleted_with=host))
                Box("kept", {"zone": "y"}, Opts(retain_on_delete=True))
                """,
            ),
            (
                "up",
                """
                g = Group("g", Opts(protect=False))
                Box("guarded", {"size": 2}, Opts(parent=g))
                """,
            ),
            ("destroy", None),
        ],
    ),
    Scenario(
        "providers: replaced, taken away, passed on by components",
        [
            (
                "up",
                """
                one, two = BoxProvider("one", "first"), BoxProvider("two", "second")
                g = Group("g", Opts(providers=[one]))
                h = Group("h", Opts(parent=g))
                a = Box("a", {"size": 1}, Opts(parent=h))
                b = Box("b", {"of": a.arn}, Opts(provider=two))
                late = BoxProvider("late", a.arn)
                Box("c", {"size": 1}, Opts(provider=late))
                """,
            ),
            (
                "preview",
                """
                one, two = BoxProvider("one", "first"), BoxProvider("two", "third")
                g = Group("g", Opts(providers=[one]))
                h = Group("h", Opts(parent=g, providers=[two]))
                a = Box("a", {"size": 2}, Opts(parent=h))
                b = Box("b", {"of": a.arn}, Opts(provider=two))
                late = BoxProvider("late", a.arn)
                Box("c", {"size": 1}, Opts(provider=late))
                """,
            ),
            ("up", None),
            ("up", 'Box("c", {"size": 1})\n'),
            ("destroy", None),
        ],
        config={"box:region": "home"},
    ),
    Scenario(
        "a failed program keeps what it made and deletes nothing",
        [
            ("up", 'Box("a")\nBox("z")\n'),
            ("up", 'Box("a", {"size": 2})\nBox("b")\nraise ValueError("no more")\n'),
            ("up", 'Box("a", {"size": 2})\n'),
        ],
        fails=frozenset({1}),
    ),
]
