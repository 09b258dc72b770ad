"""The provider: passes Pulumi's requests to a store of objects, on worker threads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import yaml
from pulumi.provider.experimental import provider as api
from pulumi.provider.experimental.property_value import PropertyValue

from gpufleet.errors import CloudError, GpufleetError, InputError
from gpufleet.lab.aws.provider.wire import UNKNOWN, Props, contains_unknown, plain_map, secret_keys, wrap_map
from gpufleet.lab.kubernetes import VERSION, changes, release
from gpufleet.lab.kubernetes.api import ApiServer
from gpufleet.lab.kubernetes.config import (
    KubernetesProviderConfig,
    Target,
    identity,
    parse,
    target,
    unknown_keys,
)
from gpufleet.lab.kubernetes.engine_log import EngineLog
from gpufleet.lab.kubernetes.folder import Folder
from gpufleet.lab.kubernetes.inputs import check
from gpufleet.lab.kubernetes.objects import (
    Manifest,
    Ref,
    declared_part,
    manifest_of,
    outputs_of,
    token_of,
    type_of,
)
from gpufleet.lab.kubernetes.rest import ApiError
from gpufleet.lab.kubernetes.store import Store

T = TypeVar("T")
_WORKERS = 16
_DELETE_TIMEOUT_S = 300.0
_PATCH_FORCE = "pulumi.com/patchForce"
_CLUSTER_KEYS = ("kubeconfig", "context", "cluster", "clusterIdentifier", "renderYamlToDirectory")


class KubernetesProvider(api.Provider):
    """The object types and Helm releases of pulumi_kubernetes 4.34.2, of any group and version."""

    def __init__(self, engine_address: str = "") -> None:
        self._log = EngineLog(engine_address)
        self._config = KubernetesProviderConfig()
        self._target: Target | None = None
        self._store: Store | None = None
        self._pool = ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="kubernetes")

    async def get_schema(self, request: api.GetSchemaRequest) -> api.GetSchemaResponse:
        """Return a minimal schema: the SDK is pulumi_kubernetes, nothing is generated from this one."""
        del request
        return api.GetSchemaResponse(schema=json.dumps({"name": "kubernetes", "version": VERSION}))

    async def check_config(self, request: api.CheckRequest) -> api.CheckResponse:
        """Reject unknown settings, an invalid kubeconfig, and a server on another machine."""
        values = plain_map(request.new_inputs)
        failures = [
            api.CheckFailure(key, f"kubernetes:{key} is not a setting of the kubernetes provider: remove it")
            for key in unknown_keys(values)
        ]
        try:
            target(_known(values))
        except InputError as error:
            failures.append(api.CheckFailure("kubeconfig", f"{error.message}; {error.remedy}"))
        return api.CheckResponse(inputs=request.new_inputs, failures=failures)

    async def diff_config(self, request: api.DiffRequest) -> api.DiffResponse:
        """Report a replacement of everything for another cluster; an unknown cluster may be another."""
        old, new = plain_map(request.old_state), plain_map(request.new_inputs)
        diffs = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
        unknown = [key for key in _CLUSTER_KEYS if contains_unknown(new.get(key))]
        if unknown and not (
            old.get("clusterIdentifier") and old.get("clusterIdentifier") == new.get("clusterIdentifier")
        ):
            return api.DiffResponse(changes=True, diffs=diffs, replaces=unknown)
        moved = bool(diffs) and not unknown and identity(old) != identity(new)
        replaces = [key for key in diffs if key in _CLUSTER_KEYS] if moved else []
        return api.DiffResponse(changes=bool(diffs), diffs=diffs, replaces=replaces)

    async def configure(self, request: api.ConfigureRequest) -> api.ConfigureResponse:
        """Set the cluster and log where its objects go. An unknown cluster occurs in previews only."""
        values = plain_map(request.args) or {
            key.rpartition(":")[2]: value for key, value in request.variables.items()
        }
        self._config = parse(_known(values))
        if not contains_unknown(values.get("kubeconfig")):
            self._target = target(_known(values))
            server = self._target.server
            self._store = Folder(self._target.folder) if server is None else ApiServer(server)
            await self._in_thread(lambda: self._log.info(self._target.why if self._target else ""))
        return api.ConfigureResponse(
            accept_secrets=True, supports_preview=True, accept_outputs=False, accept_resources=False
        )

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _need_store(self) -> Store:
        if self._store is None:
            raise InputError(
                "the kubernetes provider has no cluster yet",
                remedy="run up: a preview cannot use a cluster that does not exist yet",
            )
        return self._store

    def _releases(self) -> Store:
        store = self._need_store()
        if isinstance(store, ApiServer):
            raise InputError(release.NEEDS_SERVERLESS, remedy=release.NEEDS_SERVERLESS_REMEDY)
        return store

    async def check(self, request: api.CheckRequest) -> api.CheckResponse:
        """See `gpufleet.lab.kubernetes.inputs`."""
        answer = check(request, self._config)
        if token_of(request) == release.TOKEN and isinstance(self._store, ApiServer):
            reason = f"{release.NEEDS_SERVERLESS}; {release.NEEDS_SERVERLESS_REMEDY}"
            return api.CheckResponse(
                answer.inputs, [*(answer.failures or []), api.CheckFailure("chart", reason)]
            )
        return answer

    async def diff(self, request: api.DiffRequest) -> api.DiffResponse:
        """Compare old and new inputs; without old inputs, use the state's."""
        new, state = plain_map(request.new_inputs), plain_map(request.old_state)
        old = plain_map(getattr(request, "old_inputs", {})) or declared_part(state)
        if token_of(request) == release.TOKEN:
            return release.diff(old, new, request.ignore_changes)
        return changes.diff(old, new, self._config, request.ignore_changes)

    async def create(self, request: api.CreateRequest) -> api.CreateResponse:
        """Create an object, or return what a creation would return."""
        inputs, secrets = plain_map(request.properties), secret_keys(request.properties)
        if token_of(request) == release.TOKEN:
            return await self._create_release(request, inputs, secrets)
        if request.preview:
            return api.CreateResponse(
                "", _wrapped(await self._in_thread(lambda: self._preview(request, inputs)), secrets)
            )
        store, manifest = self._need_store(), manifest_of(inputs)

        def make() -> tuple[Ref, Manifest]:
            with _explained("creating", request):
                live = store.apply(
                    manifest, create=not self._config.upsert, force=self._force(manifest), dry_run=False
                )
                return store.resolve(manifest), live

        ref, live = await self._in_thread(make)
        return api.CreateResponse(ref.id, _wrapped(_outputs(live), secrets))

    def _force(self, manifest: Manifest) -> bool:
        annotations = (manifest.get("metadata") or {}).get("annotations") or {}
        return self._config.patch_force or str(annotations.get(_PATCH_FORCE)).lower() == "true"

    def _preview(self, request: api.CreateRequest | api.UpdateRequest, inputs: Props) -> Props:
        """Return the planned object: from the server's dry run, else as declared.

        The server cannot check an object that depends on missing ones, or whose predecessor still has its
        name.
        """
        declared = outputs_of(manifest_of(inputs)) | {"status": UNKNOWN}
        store = self._store
        if not isinstance(store, ApiServer) or contains_unknown(inputs):
            return declared
        manifest = manifest_of(inputs)
        with _explained("checking", request):
            try:
                if isinstance(request, api.CreateRequest) and store.read(store.resolve(manifest)) is not None:
                    return declared
                live = store.apply(manifest, create=False, force=self._force(manifest), dry_run=True)
            except ApiError as error:
                if error.code == 404:
                    return declared
                raise
        return outputs_of(declared_part(live)) | {"status": UNKNOWN}

    async def _create_release(
        self, request: api.CreateRequest, inputs: Props, secrets: frozenset[str]
    ) -> api.CreateResponse:
        outputs = release.outputs(inputs)
        if request.preview:
            return api.CreateResponse("", wrap_map(outputs | {"status": UNKNOWN}, secrets))
        await self._in_thread(lambda: self._record(request, inputs, create=True))
        return api.CreateResponse(release.ref(inputs).id, wrap_map(outputs, secrets))

    def _record(self, request: api.CreateRequest | api.UpdateRequest, inputs: Props, *, create: bool) -> None:
        with _explained("recording", request):
            self._releases().apply(release.manifest(inputs), create=create, force=False, dry_run=False)
        self._log.info(
            f"chart {inputs.get('chart')} {inputs.get('version') or ''} is recorded and not rendered: "
            "Helm charts cannot be fetched offline",
            request.urn,
        )

    async def read(self, request: api.ReadRequest) -> api.ReadResponse:
        """Return the current outputs, and the inputs that describe them. Empty if it does not exist."""
        store, ref = self._need_store(), _ref(token_of(request), request.resource_id)
        state, inputs = plain_map(request.properties), plain_map(request.inputs)

        def look() -> Manifest | None:
            with _explained("reading", request):
                return store.read(ref)

        found = await self._in_thread(look)
        if found is None:
            return api.ReadResponse("", {}, {})
        if token_of(request) == release.TOKEN:
            seen = release.declared(found, inputs)
            outputs = release.outputs(seen)
        else:
            outputs = _outputs(found)
            live = {key: value for key, value in outputs.items() if key != "status"}
            seen = changes.drifted(inputs, state, live) if inputs else declared_part(live)
        secrets = secret_keys(request.inputs) | secret_keys(request.properties)
        kept = {key: value for key, value in request.inputs.items() if seen.get(key) == inputs.get(key)}
        fresh = {key: value for key, value in seen.items() if key not in kept}
        return api.ReadResponse(
            request.resource_id, _wrapped(outputs, secrets), _wrapped(fresh, secrets) | kept
        )

    async def update(self, request: api.UpdateRequest) -> api.UpdateResponse:
        """Change an object in place, or return what a change would return."""
        inputs, secrets = plain_map(request.news), secret_keys(request.news)
        if token_of(request) == release.TOKEN:
            if not request.preview:
                await self._in_thread(lambda: self._record(request, inputs, create=False))
            return api.UpdateResponse(wrap_map(release.outputs(inputs), secrets))
        if request.preview:
            return api.UpdateResponse(
                _wrapped(await self._in_thread(lambda: self._preview(request, inputs)), secrets)
            )
        store, manifest = self._need_store(), manifest_of(inputs)

        def change() -> Manifest:
            with _explained("updating", request):
                return store.apply(manifest, create=False, force=self._force(manifest), dry_run=False)

        return api.UpdateResponse(_wrapped(_outputs(await self._in_thread(change)), secrets))

    async def delete(self, request: api.DeleteRequest) -> None:
        """Delete an object and wait until it is gone; one that does not exist counts as deleted."""
        store, ref = self._need_store(), _ref(token_of(request), request.resource_id)

        def remove() -> None:
            with _explained("deleting", request):
                store.delete(ref, timeout_s=request.timeout or _DELETE_TIMEOUT_S)

        await self._in_thread(remove)

    async def invoke(self, request: api.InvokeRequest) -> api.InvokeResponse:
        """Decode YAML; templates and kustomizations need the real provider plugin."""
        if request.tok != "kubernetes:yaml:decode":
            raise InputError(
                f"{request.tok} does not work in the sandbox: it needs the real provider plugin",
                remedy="declare the objects themselves",
            )
        text = str(plain_map(request.args).get("text", ""))
        try:
            documents = [item for item in yaml.safe_load_all(text) if item]
        except yaml.YAMLError as error:
            raise InputError(f"not valid YAML: {' '.join(str(error).split())}", remedy="correct it") from None
        return api.InvokeResponse(wrap_map({"result": documents}))

    async def construct(self, request: api.ConstructRequest) -> api.ConstructResponse:
        """Reject components of the real plugin (charts, YAML files)."""
        type_of(request.resource_type)
        raise InputError(
            f"{request.resource_type} does not work in the sandbox: it needs the real provider plugin",
            remedy="declare the objects themselves",
        )


def _known(values: Mapping[str, Any]) -> Props:
    return {key: value for key, value in values.items() if not contains_unknown(value)}


def _ref(token: str, resource_id: str) -> Ref:
    api_version, kind = (release.API_VERSION, release.KIND) if token == release.TOKEN else type_of(token)
    namespace, _, name = resource_id.rpartition("/")
    return Ref(api_version, kind, namespace, name)


def _outputs(live: Manifest) -> Props:
    """Return the live object without field ownership, which is longer than the object."""
    meta = {key: value for key, value in (live.get("metadata") or {}).items() if key != "managedFields"}
    return outputs_of({**live, "metadata": meta})


def _wrapped(values: Props, secrets: frozenset[str]) -> dict[str, PropertyValue]:
    """Return property values; the contents of a Secret are always secret."""
    if values.get("apiVersion") == "v1" and values.get("kind") == "Secret":
        secrets |= {"data", "stringData"}
    return wrap_map(values, secrets)


@contextmanager
def _explained(action: str, request: Any) -> Iterator[None]:
    """Add the action and the resource to an error that leaves the block."""
    try:
        yield
    except InputError:
        raise
    except GpufleetError as error:
        raise CloudError(
            f"{action} {token_of(request)} {request.name}: {error.message}", remedy=error.remedy
        ) from error
