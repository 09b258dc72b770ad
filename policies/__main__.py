"""The policy pack: `pulumi preview --policy-pack policies`, and what gpufleet's own engine runs."""

from __future__ import annotations

from pathlib import Path

from gpufleet.policy.server import serve

serve(Path(__file__).resolve().parent.parent)
