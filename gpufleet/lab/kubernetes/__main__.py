"""`python -m gpufleet.lab.kubernetes [engine address]`: serves the sandbox's kubernetes provider."""

from __future__ import annotations

import sys

from gpufleet.lab.kubernetes import VERSION
from gpufleet.lab.kubernetes.provider import KubernetesProvider
from gpufleet.lab.protocol import serve

sys.exit(serve(KubernetesProvider, VERSION, sys.argv[1:]))
