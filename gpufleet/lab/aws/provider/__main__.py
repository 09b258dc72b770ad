"""`python -m gpufleet.lab.aws.provider [engine address]`: serves the sandbox's aws provider."""

from __future__ import annotations

import sys

from gpufleet.lab.aws.provider.server import main

sys.exit(main(sys.argv[1:]))
