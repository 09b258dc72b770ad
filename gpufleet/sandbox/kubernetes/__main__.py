"""`python -m gpufleet.sandbox.kubernetes [engine address]`: serves the sandbox's kubernetes provider."""

from __future__ import annotations

import sys

from gpufleet.sandbox.kubernetes import VERSION
from gpufleet.sandbox.kubernetes.provider import KubernetesProvider
from gpufleet.sandbox.protocol import serve

sys.exit(serve(KubernetesProvider, VERSION, sys.argv[1:]))
