"""`python -m gpufleet.sandbox.provider [engine address]`: serves the sandbox's aws provider."""

from __future__ import annotations

import sys

from gpufleet.sandbox.provider.server import main

sys.exit(main(sys.argv[1:]))
