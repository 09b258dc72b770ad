"""Caches for what moto and botocore compute again: for each request half of its processor time.

Service models, names of a class's methods and attributes, the service of a host, and names of events do not
change while a server runs.
"""

from __future__ import annotations

import functools
from typing import Any

import botocore.hooks
import botocore.loaders
import botocore.session
import moto.core.responses
import moto.core.routing
import moto.core.utils
from moto.core.loaders import create_loader
from moto.core.serialize import AttributePicker, AttributePickerContext
from moto.moto_server.werkzeug_app import DomainDispatcherApplication

_CACHED = ("get_service_model", "method_names_from_class")
_MISSING = object()
_HANDLERS = 2_000
"""Handlers of botocore's events. Every session and client has the same ones; only a few are its own."""


class Dispatcher(DomainDispatcherApplication):  # type: ignore[misc]
    """moto's dispatcher, which remembers the service of a host."""

    def __init__(self, create_app: Any) -> None:
        super().__init__(create_app)
        self.get_backend_for_host = functools.cache(super().get_backend_for_host)

    def load(self, service: str) -> None:
        """Load what the first request to a service would."""
        if service not in self.app_instances:
            self.app_instances[service] = self.create_app(service)
        moto.core.utils.get_service_model(service)


@functools.cache
def enable() -> None:
    """Enable the caches of this process."""
    cache_moto()
    # moto often creates sessions (for example for the regions of a service), and each would read the same
    # files again.
    loader, of_a_folder = create_loader(), botocore.loaders.create_loader

    def shared(search_path_string: str | None = None) -> Any:
        return loader if search_path_string is None else of_a_folder(search_path_string)

    for module in (botocore.loaders, botocore.session, moto.core.utils):
        module.create_loader = shared
    _share_event_names()


@functools.cache
def cache_moto() -> None:
    """Enable the caches of moto alone: service models, names of methods and of attributes."""
    for name in _CACHED:
        cached = functools.cache(getattr(moto.core.utils, name))
        for module in (moto.core.utils, moto.core.responses, moto.core.routing):
            if hasattr(module, name):
                setattr(module, name, cached)
    _remember_attributes()


def _share_event_names() -> None:
    """Let all sessions and clients share the current names of events.

    Each looks up the hundreds of events of its handlers in botocore's table of former names, one by one, and
    one service of moto creates a dozen sessions.
    """
    aliaser = botocore.hooks.EventAliaser
    look_up = aliaser._alias_event_name
    current: dict[str, str] = {}

    def alias(self: botocore.hooks.EventAliaser, name: str) -> str:
        found = current.get(name)
        if found is None:
            found = current[name] = look_up(self, name)
        return found

    aliaser._alias_event_name = alias
    # Of each handler again: whether it accepts any keyword.
    botocore.hooks.accepts_kwargs = functools.lru_cache(_HANDLERS)(botocore.hooks.accepts_kwargs)


def _remember_attributes() -> None:
    """Let moto find out once under which names an object of a class has what a shape of an answer asks for.

    For each value it would ask six classes for names, and compare the value's path with those of all
    transformers.
    """

    def pick(self: AttributePicker, context: AttributePickerContext) -> Any:
        # Only one place of one operation's answer has this shape.
        known = vars(context.shape).setdefault("_attributes", {})
        asked = type(self), type(context.obj), context.key
        if asked not in known:
            path = f"{context.key_path}.{context.key}"
            transformers = self.response_transformers.items()
            known[asked] = (
                tuple(dict.fromkeys(self.get_possible_keys(context))),
                next((transform for end, transform in transformers if path.endswith(end)), None),
            )
        names, transform = known[asked]
        values = (moto.core.utils.get_value(context.obj, name, _MISSING) for name in names)
        value = next((each for each in values if each is not _MISSING), None)
        return value if transform is None else transform(value)

    AttributePicker.__call__ = pick
