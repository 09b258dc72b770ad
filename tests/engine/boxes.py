"""Resource classes for the programs of the scenario tests; a copy lies beside each program."""

from __future__ import annotations

from typing import Any

import pulumi

OUTPUTS = {"arn": None, "region": None}


class Box(pulumi.CustomResource):
    """A custom resource of the package `box`; any property is an input."""

    arn: pulumi.Output[str]
    region: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        props: dict[str, Any] | None = None,
        opts: pulumi.ResourceOptions | None = None,
        kind: str = "Box",
    ) -> None:
        super().__init__(f"box:index:{kind}", name, {**OUTPUTS, **(props or {})}, opts)


class Group(pulumi.ComponentResource):
    """A component without children of its own."""

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions | None = None,
        props: dict[str, Any] | None = None,
    ) -> None:
        super().__init__("test:index:Group", name, props or {}, opts)


class BoxProvider(pulumi.ProviderResource):
    """An explicit provider of the package `box`."""

    def __init__(self, name: str, region: Any, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("box", name, {"region": region}, opts)
