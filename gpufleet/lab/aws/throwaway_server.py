"""`python -m gpufleet.lab.aws.throwaway_server ROOT ...`: the server of a throwaway account.

It is the sandbox's server, which hosts the account's aws providers as well.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpufleet.lab.aws.hosted_provider import PROVIDER
from gpufleet.lab.aws.server.__main__ import main as serve

if TYPE_CHECKING:
    from gpufleet.lab.aws.server.app import SandboxApp


def main(argv: list[str] | None = None) -> int:
    """See `gpufleet.lab.aws.server`."""
    return serve(argv, _host_providers)


def _host_providers(app: SandboxApp) -> None:
    from gpufleet.lab.aws.hosting import ProviderHost

    app.controls[PROVIDER] = ProviderHost(app).start


if __name__ == "__main__":
    sys.exit(main())
