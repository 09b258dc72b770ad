"""The provider: passes Pulumi's requests to handlers, on worker threads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pulumi.provider.experimental import provider as api

from gpufleet.errors import InputError
from gpufleet.lab.aws.provider import VERSION, planning
from gpufleet.lab.aws.provider.clients import Clients
from gpufleet.lab.aws.provider.compare import drifted_inputs
from gpufleet.lab.aws.provider.config import AwsProviderConfig, parse, sandbox_folder, unknown_keys
from gpufleet.lab.aws.provider.errors import (
    PartialCreateError,
    explain,
    is_missing,
    is_outcome_unknown,
    keep_on_failure,
)
from gpufleet.lab.aws.provider.handler import Aws, Handler
from gpufleet.lab.aws.provider.invokes import run_invoke
from gpufleet.lab.aws.provider.registry import handler_for, tokens
from gpufleet.lab.aws.provider.wire import Props, contains_unknown, plain_map, secret_keys, wrap, wrap_map
from gpufleet.lab.protocol import InitFailedError, UnknownOutcomeError

T = TypeVar("T")
_WORKERS = 32


class AwsProvider(api.Provider):
    """The resources and functions of pulumi_aws 7.51.1 that gpufleet uses, on the emulated AWS."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        transport: Callable[..., Any] | None = None,
        *,
        workers: int = _WORKERS,
    ) -> None:
        """Create it. `environ` is the plugin's environment, this process's by default; see Clients."""
        self._environ = environ
        self._transport = transport
        self._config = AwsProviderConfig()
        self._clients: Clients | None = None
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="aws")

    async def get_schema(self, request: api.GetSchemaRequest) -> api.GetSchemaResponse:
        """Return a minimal schema: the SDK is pulumi_aws, nothing is generated from this one."""
        del request
        document = {"name": "aws", "version": VERSION, "resources": {token: {} for token in tokens()}}
        return api.GetSchemaResponse(schema=json.dumps(document))

    async def check_config(self, request: api.CheckRequest) -> api.CheckResponse:
        """Reject unknown settings and those of a real account."""
        values = plain_map(request.new_inputs)
        failures = [
            api.CheckFailure(key, f"aws:{key} is not a setting of the sandbox's aws provider: remove it")
            for key in unknown_keys(values)
        ]
        if not contains_unknown(values):
            try:
                parse(values, self._environ)
            except InputError as error:
                failures.append(api.CheckFailure("", f"{error.message}; {error.remedy}"))
        return api.CheckResponse(inputs=request.new_inputs, failures=failures)

    async def diff_config(self, request: api.DiffRequest) -> api.DiffResponse:
        """Report no replacement: the resources' own diffs show the effect of a changed configuration."""
        old, new = plain_map(request.old_state), plain_map(request.new_inputs)
        return api.DiffResponse(
            changes=old != new, diffs=sorted(k for k in {*old, *new} if old.get(k) != new.get(k))
        )

    async def configure(self, request: api.ConfigureRequest) -> api.ConfigureResponse:
        """Set region, tags and endpoint; start the checkout's emulated AWS if no endpoint is set."""
        values = plain_map(request.args) or {
            key.rpartition(":")[2]: value for key, value in request.variables.items()
        }
        known = {key: value for key, value in values.items() if not contains_unknown(value)}
        self._config = parse(known, self._environ)
        await self._in_thread(self._connect)
        return api.ConfigureResponse(
            accept_secrets=True, supports_preview=True, accept_outputs=False, accept_resources=False
        )

    def _connect(self) -> None:
        endpoint = self._config.endpoint
        if not endpoint:
            from gpufleet.lab.aws import daemon

            endpoint = daemon.ensure(sandbox_folder()).url
        self._clients = Clients(endpoint, self._transport)
        allowed, forbidden = self._config.allowed_accounts, self._config.forbidden_accounts
        if not allowed and not forbidden:
            return
        account = self._clients.account(self._config.region)
        if account in forbidden or (allowed and account not in allowed):
            raise InputError(
                f"the emulated AWS is account {account}, which aws:allowedAccountIds does not allow",
                remedy=f"add {account} to aws:allowedAccountIds of this stack",
            )

    def _aws(self, inputs: Props) -> Aws:
        if self._clients is None:
            raise InputError("the aws provider is not configured", remedy="send Configure first")
        return Aws(self._clients, str(inputs.get("region") or self._config.region))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def check(self, request: api.CheckRequest) -> api.CheckResponse:
        """Check the inputs, and set names, defaults and default tags."""
        try:
            handler = handler_for(request.type)
        except InputError as error:
            return api.CheckResponse(
                request.new_inputs, [api.CheckFailure("", f"{error.message}; {error.remedy}")]
            )
        given = plain_map(request.new_inputs)
        filled, problems = planning.checked_inputs(
            handler, self._config, given, plain_map(request.old_inputs), request.name, request.random_seed
        )
        answer = {key: value for key, value in request.new_inputs.items() if key in given}
        secrets = secret_keys(request.new_inputs) | handler.secrets
        answer |= {
            key: wrap(value, secret=key in secrets)
            for key, value in filled.items()
            if key not in given or given[key] != value
        }
        return api.CheckResponse(
            answer, [api.CheckFailure(problem.path, problem.reason) for problem in problems]
        )

    async def diff(self, request: api.DiffRequest) -> api.DiffResponse:
        """Compare old and new inputs; without old inputs, use the state's."""
        handler = handler_for(request.type)
        new, state = plain_map(request.new_inputs), plain_map(request.old_state)
        old = self._old_inputs(handler, request, state, new)
        return planning.diff(handler, *self._in_region(handler, old, new, state), request.ignore_changes)

    @staticmethod
    def _old_inputs(handler: Handler, request: object, state: Props, new: Props) -> Props:
        """Return the inputs of the state: from the engine, else from the outputs."""
        old = plain_map(getattr(request, "old_inputs", {}))
        if old:
            return old
        old = {key: state[key] for key in handler.schema.inputs.properties if key in state}
        return {key: value for key, value in old.items() if key in new or key not in handler.computed}

    def _in_region(self, handler: Handler, old: Props, new: Props, state: Props) -> tuple[Props, Props]:
        """Return both sides with their effective region: setting the provider's own is not a change."""
        if "region" not in handler.schema.inputs.properties:
            return old, new
        was = old.get("region") or state.get("region") or self._config.region
        return {**old, "region": was}, {**new, "region": new.get("region") or self._config.region}

    async def create(self, request: api.CreateRequest) -> api.CreateResponse:
        """Create a resource, or return what a creation would return."""
        handler = handler_for(request.type)
        inputs, secrets = plain_map(request.properties), secret_keys(request.properties) | handler.secrets
        if request.preview:
            return api.CreateResponse(
                "", wrap_map(planning.planned_create(handler, self._config, inputs), secrets)
            )
        try:
            rid, state = await self._in_thread(lambda: self._create(handler, inputs, request.name))
        except PartialCreateError as error:
            made = error.resource_id
            observed = await self._in_thread(lambda: self._read_incomplete(handler, inputs, made))
            known = planning.state_of(handler, self._config, inputs, made, observed)
            raise InitFailedError(
                f"{error.message}; {error.remedy}",
                resource_id=made,
                properties=wrap_map(known, secrets),
                inputs=request.properties,
            ) from error
        return api.CreateResponse(rid, wrap_map(state, secrets))

    def _create(self, handler: Handler, inputs: Props, name: str) -> tuple[str, Props]:
        aws = self._aws(inputs)
        try:
            rid = handler.create(aws, inputs)
            with keep_on_failure(rid):
                observed = handler.read(aws, rid, inputs)
                if observed is None:
                    raise TimeoutError("AWS does not show it")
        except Exception as error:
            known = explain(error, f"{handler.pulumi_type} {name}", "creating")
            if is_outcome_unknown(error):
                raise UnknownOutcomeError(
                    f"{known.message}; whether it was created is unknown",
                    remedy="run up again, which searches it first",
                ) from error
            raise known from error
        return rid, planning.state_of(handler, self._config, inputs, rid, observed)

    def _read_incomplete(self, handler: Handler, inputs: Props, rid: str) -> Props:
        """Return the readable outputs of an incomplete resource, for its deletion and repair."""
        try:
            return handler.read(self._aws(inputs), rid, inputs) or {}
        except Exception:  # the reason was already reported
            return {}

    async def read(self, request: api.ReadRequest) -> api.ReadResponse:
        """Return the current outputs, and the inputs that describe them. Empty if it does not exist."""
        handler = handler_for(request.type)
        state, inputs = plain_map(request.properties), plain_map(request.inputs)
        observed = await self._in_thread(lambda: self._read(handler, request, inputs or state))
        if observed is None:
            return api.ReadResponse("", {}, {})
        now = planning.state_of(handler, self._config, inputs, request.resource_id, observed)
        found = drifted_inputs(handler, inputs, state, observed)
        secrets = secret_keys(request.inputs) | secret_keys(request.properties) | handler.secrets
        kept = {key: value for key, value in request.inputs.items() if found.get(key) == inputs.get(key)}
        return api.ReadResponse(
            request.resource_id,
            wrap_map(now, secrets),
            wrap_map({key: value for key, value in found.items() if key not in kept}, secrets) | kept,
        )

    def _read(
        self, handler: Handler, request: api.ReadRequest | api.DeleteRequest, known: Props
    ) -> Props | None:
        try:
            return handler.read(self._aws(known), request.resource_id, known)
        except Exception as error:
            if is_missing(error):
                return None
            if isinstance(error, KeyError) and not known:
                raise InputError(
                    f"{handler.pulumi_type} {request.name} cannot be imported by its id "
                    f"{request.resource_id!r} only: the sandbox also needs {error}",
                    remedy="create it with the program",
                ) from error
            raise explain(error, f"{handler.pulumi_type} {request.name}", "reading") from error

    async def update(self, request: api.UpdateRequest) -> api.UpdateResponse:
        """Change a resource in place, or return what a change would return."""
        handler = handler_for(request.type)
        old, new = plain_map(request.olds), plain_map(request.news)
        secrets = secret_keys(request.news) | handler.secrets
        before = self._old_inputs(handler, request, old, new)
        if request.preview:
            planned = planning.planned_update(handler, self._config, new, before, old)
            return api.UpdateResponse(wrap_map(planned, secrets))
        state = await self._in_thread(lambda: self._update(handler, request, before, old, new))
        return api.UpdateResponse(wrap_map(state, secrets))

    def _update(
        self, handler: Handler, request: api.UpdateRequest, before: Props, old: Props, new: Props
    ) -> Props:
        aws, rid = self._aws(new), request.resource_id
        sides = self._in_region(handler, before, new, old)
        changed = frozenset(planning.diff(handler, *sides, list(request.ignore_changes)).diffs)
        try:
            if changed:
                handler.update(aws, rid, old, new, changed)
            else:
                self._complete(handler, aws, request, old, new)
            observed = handler.read(aws, rid, new)
        except Exception as error:
            raise explain(error, f"{handler.pulumi_type} {request.name}", "updating") from error
        if observed is None:
            raise explain(TimeoutError(f"{rid} is gone"), f"{handler.pulumi_type} {request.name}", "updating")
        return planning.state_of(handler, self._config, new, rid, observed)

    def _complete(
        self, handler: Handler, aws: Aws, request: api.UpdateRequest, state: Props, inputs: Props
    ) -> None:
        """Complete a creation that broke off: AWS has other inputs than the state."""
        rid = request.resource_id
        observed = handler.read(aws, rid, inputs)
        if observed is None:
            raise TimeoutError(f"{rid} is gone")
        found = drifted_inputs(handler, inputs, state, observed)
        sides = self._in_region(handler, found, inputs, state)
        missing = frozenset(planning.diff(handler, *sides, list(request.ignore_changes)).diffs)
        # Also if nothing is missing: the handler repeats steps that failed during the creation.
        known = planning.state_of(handler, self._config, inputs, rid, observed)
        handler.update(aws, rid, known, inputs, missing)

    async def delete(self, request: api.DeleteRequest) -> None:
        """Delete a resource; one that does not exist counts as deleted."""
        handler = handler_for(request.type)
        state = plain_map(request.properties)
        await self._in_thread(lambda: self._delete(handler, request, state))

    def _delete(self, handler: Handler, request: api.DeleteRequest, state: Props) -> None:
        try:
            handler.delete(self._aws(state), request.resource_id, state)
        except Exception as error:
            # The missing resource may be another one that the deletion uses.
            if is_missing(error) and self._read(handler, request, state) is None:
                return
            raise explain(error, f"{handler.pulumi_type} {request.name}", "deleting") from error

    async def invoke(self, request: api.InvokeRequest) -> api.InvokeResponse:
        """Run a function of pulumi_aws."""
        arguments = plain_map(request.args)
        result = await self._in_thread(lambda: run_invoke(self._aws(arguments), request.tok, arguments))
        return api.InvokeResponse(wrap_map(result))
