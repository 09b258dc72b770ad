"""The one interface of both engines: what a run is asked, what it reports, what it returns.

`gpufleet.engine.embedded` and `gpufleet.engine.pulumi_cli` implement `Engine`; everything above
(CLI, reports, tests) speaks these types and does not know which engine ran.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol


class Op(StrEnum):
    """What happens to one resource, in Pulumi's own words."""

    SAME = "same"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    REPLACE = "replace"
    CREATE_REPLACEMENT = "create-replacement"
    DELETE_REPLACED = "delete-replaced"
    READ = "read"
    REFRESH = "refresh"


Verb = Literal["preview", "up", "refresh", "destroy"]
Severity = Literal["debug", "info", "warning", "error"]
PolicySeverity = Literal["low", "medium", "high", "critical", ""]


@dataclass(frozen=True, slots=True)
class ResourceEvent:
    """A step on one resource has started, is done or has failed.

    `diff` holds the top-level input properties that differ, `replace_keys` those that force a
    replacement, `error` the provider's message when `status` is "failed", and the reason when
    it is "skipped" (a dependency failed). `elapsed_s` is set on done and failed.
    """

    urn: str
    type: str
    name: str
    op: Op
    status: Literal["started", "done", "failed", "skipped"]
    parent: str = ""
    diff: tuple[str, ...] = ()
    replace_keys: tuple[str, ...] = ()
    error: str = ""
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DiagnosticEvent:
    """A line of the program, a provider or the engine. `urn` is empty for the whole run."""

    severity: Severity
    message: str
    urn: str = ""


@dataclass(frozen=True, slots=True)
class PolicyEvent:
    """A violation that a policy pack reported.

    `enforcement` is what the violation means for the run: "advisory" or "mandatory" (a violation
    that a remediation did not cure is mandatory, as in the Pulumi CLI). `version` is the pack's.
    The Automation API's events carry neither `severity` nor `description`: they are empty there.
    """

    pack: str
    policy: str
    enforcement: Literal["advisory", "mandatory", "remediate", "disabled"]
    message: str
    urn: str = ""
    version: str = ""
    severity: PolicySeverity = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class RemediationEvent:
    """A policy replaced the inputs of a resource; `changed` are the top-level properties it changed.

    Only the embedded engine reports it: the Automation API drops the CLI's event.
    """

    pack: str
    policy: str
    urn: str
    changed: tuple[str, ...]
    version: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class InterruptEvent:
    """The run was asked to stop: nothing more begins, and operations under way are finished.

    With `forced` they are not: they stay pending in the state, and the next run looks what became of them.
    """

    forced: bool = False


Event = ResourceEvent | DiagnosticEvent | PolicyEvent | RemediationEvent | InterruptEvent
OnEvent = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Changes:
    """How many resources each kind of change touched. `replace` counts a replacement once."""

    create: int = 0
    update: int = 0
    replace: int = 0
    delete: int = 0
    same: int = 0

    def to_json(self) -> dict[str, int]:
        """The counts under the names of the stable contract."""
        return {
            "create": self.create,
            "update": self.update,
            "replace": self.replace,
            "delete": self.delete,
            "same": self.same,
        }

    @property
    def total(self) -> int:
        """Resources that change (everything but `same`)."""
        return self.create + self.update + self.replace + self.delete


@dataclass(frozen=True, slots=True)
class PlannedResource:
    """A resource as a preview or an update leaves it: what reports and pricing look at.

    `inputs` are plain Python values; an unknown value is `UNKNOWN` and a secret is `SECRET`.
    """

    urn: str
    type: str
    name: str
    op: Op
    custom: bool
    inputs: Mapping[str, Any]
    parent: str = ""
    diff: tuple[str, ...] = ()
    replace_keys: tuple[str, ...] = ()


UNKNOWN = "[unknown]"
SECRET = "[secret]"  # noqa: S105 - the placeholder that stands for a secret, not one


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run of an engine did.

    `ok` is False when the program, a provider or a policy failed; `failures` then names each
    resource and why, `violations` what a policy said. `outputs` are the stack's outputs with secrets
    replaced by `SECRET` unless the request asked to show them. `interrupted` says that a signal ended the
    run before it was through.
    """

    engine: Literal["embedded", "pulumi"]
    verb: Verb
    ok: bool
    changes: Changes
    duration_s: float
    outputs: Mapping[str, Any] = field(default_factory=dict)
    resources: tuple[PlannedResource, ...] = ()
    failures: tuple[ResourceEvent, ...] = ()
    diagnostics: tuple[DiagnosticEvent, ...] = ()
    violations: tuple[PolicyEvent, ...] = ()
    remediations: tuple[RemediationEvent, ...] = ()
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class StackRequest:
    """Everything an engine needs to run one stack.

    `program_dir` holds `__main__.py`; it is also the program's working folder. `config` has full
    keys (`gpufleet:cloud`), `secret_config` names those whose values are secrets. `providers`
    maps a package name (`aws`) to the command that serves its provider (prints its port on the
    first line of stdout, as Pulumi plugins do); a package that is not named there is looked for as
    `pulumi-resource-<package>` on PATH and in the user's Pulumi plugin folder. `env` is added to
    the environment of the program and of the providers. `state_file` is the embedded engine's
    checkpoint. `preload` names installed modules that the Python processes of a run will import: the
    embedded engine has them imported once, for all of them.

    `policy_packs` are folders with a PulumiPolicy.yaml; `policy_config` names, for such a folder, the
    JSON file with the configuration of its policies (what the CLI's `--policy-pack-config` takes).
    With packs, `up` first previews the request and stops before the first change if that fails.
    `previewed` says that the caller has previewed this very request with the same packs, so that
    `up` need not.
    """

    project: str
    stack: str
    project_root: Path
    program_dir: Path
    state_file: Path
    config: Mapping[str, str] = field(default_factory=dict)
    secret_config: frozenset[str] = frozenset()
    providers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    policy_packs: tuple[Path, ...] = ()
    policy_config: Mapping[Path, Path] = field(default_factory=dict)
    previewed: bool = False
    parallel: int = 16
    targets: tuple[str, ...] = ()
    show_secrets: bool = False
    preload: tuple[str, ...] = ()


class Engine(Protocol):
    """A deployment engine. Every verb streams events and returns one result.

    A run that fails half-way raises nothing: it returns `ok=False` with the failures, and the
    state names everything that exists. What cannot even start (state locked, unsupported feature,
    program missing) raises a `gpufleet.errors.GpufleetError`.
    """

    name: Literal["embedded", "pulumi"]

    def preview(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Say what `up` would do; changes nothing, in the cloud or in the state."""
        ...

    def up(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Bring the cloud to what the program says; with policy packs, after a preview of its own."""
        ...

    def refresh(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Bring the state to what the cloud is; a changed resource counts as `update`."""
        ...

    def destroy(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Delete everything in the state, in reverse dependency order."""
        ...

    def outputs(self, request: StackRequest) -> Mapping[str, Any]:
        """The outputs of the last `up`; empty when the stack does not exist."""
        ...

    def export(self, request: StackRequest) -> dict[str, Any] | None:
        """The state as `pulumi stack export` prints it (version 3), or None without a stack."""
        ...

    def is_complete(self, request: StackRequest) -> bool:
        """Whether an `up` of the stack ever came to its end; True where that is not recorded."""
        ...
