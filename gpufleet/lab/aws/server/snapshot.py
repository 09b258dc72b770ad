"""The sandbox's state as a file: every used backend of moto, as one pickle.

It is one pickle, not one per service, because moto's backends refer to each other (autoscaling to EC2, EC2 to
its VPCs); separately they would be restored as independent copies.

The first line is JSON with the format, moto and Python version of the file. Another combination is rejected
with a message, since a pickle of other classes cannot be read reliably.
"""

from __future__ import annotations

import importlib
import io
import json
import marshal
import pickle
import platform
import threading
import types
import weakref
from collections import defaultdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from gpufleet.errors import CloudError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
"""Increase it when a class of gpufleet.lab.aws.backends changes its attributes."""

FORMER = "gpufleet.sandbox."
"""The path of the modules of `gpufleet.lab.aws` when the first snapshots of this format were written."""

_RESET = "run `gpufleet sandbox reset`, then `gpufleet up` for the environment again"


class SnapshotError(CloudError):
    """The saved state cannot be used; the message says why and the remedy is a reset."""

    def __init__(self, message: str) -> None:
        super().__init__(message, remedy=_RESET)


def header() -> dict[str, Any]:
    """Return the versions that a snapshot must have to be readable here."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"format": FORMAT, "moto": version("moto"), "python": python}


def check(path: Path) -> None:
    """Raise SnapshotError unless `path` is absent or was written by this format, moto and Python."""
    if not path.exists():
        return
    with path.open("rb") as file:
        line = file.readline(4096)
    try:
        written_by = json.loads(line)
    except ValueError:
        raise SnapshotError(f"the sandbox's saved state {path} is damaged (no header)") from None
    if written_by != header():
        other, this = _describe(written_by), _describe(header())
        raise SnapshotError(f"the sandbox's saved state {path} was written by {other}, this is {this}")


def _describe(written_by: Any) -> str:
    if not isinstance(written_by, dict):
        return repr(written_by)
    return ", ".join(f"{key} {value}" for key, value in written_by.items())


def dump() -> bytes:
    """Return the state of every backend in this process. No request may run meanwhile."""
    from moto.core.base_backend import BackendDict

    state = [
        (backends, account, region, backend)
        for backends in BackendDict._instances
        for account, region, backend in backends.iter_backends()
    ]
    buffer = io.BytesIO()
    buffer.write(json.dumps(header()).encode() + b"\n")
    _Pickler(buffer, protocol=5).dump(state)
    return buffer.getvalue()


def load(path: Path) -> None:
    """Load the saved backends into moto; do nothing without a snapshot."""
    if not path.exists():
        return
    check(path)
    with path.open("rb") as file:
        file.readline(4096)
        try:
            state = _Unpickler(file).load()
        except Exception as error:  # a damaged pickle raises nearly anything
            raise SnapshotError(f"the sandbox's saved state {path} is damaged ({error!r})") from error
    for backends, account, region, backend in state:
        dict.__setitem__(backends[account], region, backend)


def clear() -> None:
    """Delete every backend in this process and free its resources. No request may run meanwhile."""
    from moto.core.base_backend import BackendDict, BaseBackend
    from moto.core.model_instances import reset_model_data
    from moto.ec2.models.subnets import Subnet

    accounts = [account for backends in BackendDict._instances for account in backends.values()]
    for account in accounts:
        for region, backend in list(account.items()):
            # Without calling its own reset, which would create moto's default VPCs and images again.
            if type(backend).reset is BaseBackend.reset:
                del account[region]
    BackendDict.reset()
    for account in accounts:
        account.clear()
    # moto keeps more objects: a list of all that were ever created, and a cache of subnets.
    reset_model_data()
    Subnet._base_avail_ip_iterator.cache_clear()


def backend_count() -> int:
    """Return the number of backends: a read that created one (with its default VPC) must be saved."""
    from moto.core.base_backend import BackendDict

    return sum(len(regions) for backends in BackendDict._instances for regions in backends.values())


class _Unpickler(pickle.Unpickler):
    """Unpickler for a file that this program wrote, in a folder of the user's."""

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(_moved(module), name)


class _Pickler(pickle.Pickler):
    """C pickle, plus objects of moto that pickle rejects."""

    def reducer_override(self, obj: Any) -> Any:
        from moto.core.base_backend import AccountSpecificBackend, BackendDict

        if isinstance(obj, BackendDict):
            return _backends_named, _name_of(obj)
        if isinstance(obj, AccountSpecificBackend):
            owner = next(b for b in BackendDict._instances if b.get(obj.account_id) is obj)
            return _account_backends, (*_name_of(owner), obj.account_id)
        if isinstance(obj, _LOCK_TYPES):
            return (threading.RLock if isinstance(obj, _RLOCK) else threading.Lock), ()
        if type(obj).__module__.startswith("cryptography.") and hasattr(obj, "private_bytes"):
            return _private_key, (_private_bytes(obj),)
        if isinstance(obj, types.FunctionType) and "<" in obj.__qualname__:
            # Default factories such as ssm's: moto's own code, looked up in its own module.
            cells = tuple(cell.cell_contents for cell in obj.__closure__ or ())
            code = marshal.dumps(obj.__code__)
            return _local_function, (obj.__module__, obj.__name__, code, obj.__defaults__, cells)
        if isinstance(obj, weakref.WeakValueDictionary):
            # Functions of Lambda by their ARN; what holds them is in the same pickle.
            return weakref.WeakValueDictionary, (), None, None, iter(list(obj.items()))
        if isinstance(obj, defaultdict) and type(obj).__init__ is not defaultdict.__init__:
            # pickle would call such a class with its default factory, which its __init__ does not accept.
            return _default_dict, (type(obj), obj.default_factory), vars(obj), None, iter(obj.items())
        return NotImplemented


_RLOCK = type(threading.RLock())
_LOCK_TYPES = (_RLOCK, type(threading.Lock()))


def _name_of(backends: Any) -> tuple[str, str]:
    module = backends.backend.__module__
    for name, value in vars(importlib.import_module(module)).items():
        if value is backends:
            return module, name
    raise pickle.PicklingError(f"the backends of {backends.service_name} are no global of {module}")


def _moved(module: str) -> str:
    return module.replace(FORMER, "gpufleet.lab.aws.") if module.startswith(FORMER) else module


def _backends_named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(_moved(module)), name)


def _account_backends(module: str, name: str, account: str) -> Any:
    return _backends_named(module, name)[account]


def _default_dict(kind: type[defaultdict[Any, Any]], factory: Any) -> defaultdict[Any, Any]:
    made = kind.__new__(kind)
    defaultdict.__init__(made, factory)
    return made


def _private_bytes(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    pem: bytes = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    return pem


def _private_key(pem: bytes) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    # Written by `_private_bytes`; validating an RSA key again takes most of the time of a load.
    return load_pem_private_key(pem, password=None, unsafe_skip_rsa_key_validation=True)


def _local_function(
    module: str, name: str, code: bytes, defaults: tuple[Any, ...] | None, cells: tuple[Any, ...]
) -> types.FunctionType:
    scope = vars(importlib.import_module(_moved(module)))
    closure = tuple(types.CellType(content) for content in cells)
    function = marshal.loads(code)  # noqa: S302 - from this program's own snapshot, see load()
    return types.FunctionType(function, scope, name, defaults, closure)
