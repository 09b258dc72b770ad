"""Caches for what moto computes again for each request: half of the processor time of most requests.

Service models, names of a class's methods, and the service of a host do not change while a server runs.
"""

from __future__ import annotations

import functools
from typing import Any

import botocore.loaders
import botocore.session
import moto.core.responses
import moto.core.routing
import moto.core.utils
from moto.core.loaders import Loader, create_loader
from moto.moto_server.werkzeug_app import DomainDispatcherApplication

_CACHED = ("get_service_model", "method_names_from_class")


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
    for name in _CACHED:
        cached = functools.cache(getattr(moto.core.utils, name))
        for module in (moto.core.utils, moto.core.responses, moto.core.routing):
            if hasattr(module, name):
                setattr(module, name, cached)
    # moto often creates sessions (for example for the regions of a service), and each would read the same
    # files again.
    loader = create_loader()

    def shared(*_: Any) -> Loader:
        return loader

    for module in (botocore.loaders, botocore.session, moto.core.utils):
        module.create_loader = shared
