"""The interface of both engines: requests, events and results of a run.

`gpufleet.engine.embedded` and `gpufleet.engine.pulumi_cli` implement `Engine`. The CLI, reports and tests use
only these types and do not depend on the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, field


class Op(StrEnum):
    """What happens to one resource, with Pulumi's own names."""

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


class ResourceEvent(Struct, frozen=True):
    """A step on one resource has started, completed or failed.

    `diff` holds the top-level input properties that differ, `replace_keys` those that force a replacement.
    `error` is the provider's message if `status` is "failed", and the reason if it is "skipped" (a
    dependency failed). `elapsed_s` is set for completed and failed steps.
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


class DiagnosticEvent(Struct, frozen=True):
    """A line of the program, a provider or the engine. `urn` is empty for the whole run."""

    severity: Severity
    message: str
    urn: str = ""


class PolicyEvent(Struct, frozen=True):
    """A violation that a policy pack reported.

    `enforcement` is the effect on the run: "advisory" or "mandatory" (a violation that a remediation did
    not correct is mandatory, as in the Pulumi CLI). `version` is the pack's. `severity` and `description`
    are empty in events of the Automation API, which does not provide them.
    """

    pack: str
    policy: str
    enforcement: Literal["advisory", "mandatory", "remediate", "disabled"]
    message: str
    urn: str = ""
    version: str = ""
    severity: PolicySeverity = ""
    description: str = ""


class RemediationEvent(Struct, frozen=True):
    """A policy replaced the inputs of a resource; `changed` are the top-level properties it changed.

    Only the embedded engine reports it: the Automation API drops the CLI's event.
    """

    pack: str
    policy: str
    urn: str
    changed: tuple[str, ...]
    version: str = ""
    description: str = ""


class InterruptEvent(Struct, frozen=True):
    """The run was interrupted: no new step begins, and running operations complete.

    With `forced` they do not: they stay pending in the state, and the next run checks their outcome.
    """

    forced: bool = False


Event = ResourceEvent | DiagnosticEvent | PolicyEvent | RemediationEvent | InterruptEvent
OnEvent = Callable[[Event], None]


class Changes(Struct, frozen=True):
    """The number of resources per kind of change. `replace` counts a replacement once."""

    create: int = 0
    update: int = 0
    replace: int = 0
    delete: int = 0
    same: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the counts under the names of the stable contract."""
        return {
            "create": self.create,
            "update": self.update,
            "replace": self.replace,
            "delete": self.delete,
            "same": self.same,
        }

    @property
    def total(self) -> int:
        """Return the number of resources that change (everything but `same`)."""
        return self.create + self.update + self.replace + self.delete


class PlannedResource(Struct, frozen=True):
    """A resource after a preview or an update, for reports and prices.

    `inputs` are plain Python values; an unknown value is `UNKNOWN`, a secret is `SECRET`.
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


class RunResult(Struct, frozen=True):
    """The result of one run of an engine.

    `ok` is False if the program, a provider or a policy failed; `failures` then has each resource and its
    reason, `violations` the policy violations. `outputs` are the stack's outputs, with secrets replaced by
    `SECRET` unless the request shows them. `interrupted`: a signal ended the run early.
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


ASSUMES = "GPUFLEET_ASSUMES"
"""Environment variable of providers: set if the request `assumes`."""


class StackRequest(Struct, frozen=True):
    """Everything an engine needs to run one stack.

    `program_dir` contains `__main__.py` and is the program's working folder. `config` has full keys
    (`gpufleet:cloud`), `secret_config` lists those with secret values. `providers` maps a package name
    (`aws`) to the command that serves its provider (prints its port on the first line of stdout, as Pulumi
    plugins do); other packages are searched as `pulumi-resource-<package>` on PATH and in the user's Pulumi
    plugin folder. `env` is added to the environment of the program and of the providers. `state_file` is
    the embedded engine's checkpoint. `preload` lists installed modules that the Python processes of a run
    import: the embedded engine imports them once, for all of them.

    `policy_packs` are folders with a PulumiPolicy.yaml; `policy_config` maps such a folder to the JSON file
    with the configuration of its policies (the CLI's `--policy-pack-config`). With packs, `up` first
    previews the request and stops before the first change if that fails. `previewed`: the caller has
    already previewed this request with the same packs, so `up` does not.

    `state_ready` is for previews of the embedded engine against a state that is still being made: the
    program and the packs start at once, and everything else waits for its result.

    `assumes`: resources that no provider of the run serves are taken as the program declares them, with
    unknown outputs, in place of an error. Only the embedded engine does it: in a preview, and in an `up` of a
    temporary account, in which unknown values stay in the state and the program runs as in a preview.

    `random_passphrase`: the passphrase is random, of 128 bits or more, and the state is temporary. The
    embedded engine then derives the key in one round, since the others protect only passphrases that people
    choose; Pulumi does not read such a state. It is no variable of the environment, which would weaken other
    states.
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
    state_ready: Future[None] | None = None
    random_passphrase: bool = False
    assumes: bool = False


class Engine(Protocol):
    """A deployment engine. Every method streams events and returns one result.

    A run that fails midway raises nothing: it returns `ok=False` with the failures, and the state contains
    everything that exists. A run that cannot start (state locked, unsupported feature, program missing)
    raises a `gpufleet.errors.GpufleetError`.
    """

    name: Literal["embedded", "pulumi"]

    def preview(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Report what `up` would do; change nothing, in the cloud or in the state."""
        ...

    def up(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Create and update resources as the program declares them; with policy packs, after a preview."""
        ...

    def refresh(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Update the state from the cloud; a changed resource counts as `update`."""
        ...

    def destroy(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Delete everything in the state, in reverse dependency order."""
        ...

    def outputs(self, request: StackRequest) -> Mapping[str, Any]:
        """Return the outputs of the last `up`; empty if the stack does not exist."""
        ...

    def export(self, request: StackRequest) -> dict[str, Any] | None:
        """Return the state as `pulumi stack export` prints it (version 3), or None without a stack."""
        ...

    def is_complete(self, request: StackRequest) -> bool:
        """Return whether an `up` of the stack ever completed; True if that is not recorded."""
        ...
