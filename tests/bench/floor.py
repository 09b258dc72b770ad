"""The SDK's own floor: the stack program of a checkout under `pulumi.runtime.set_mocks`.

Run as `python -m tests.bench.floor <checkout> <stack>` in a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import runpy
import sys

import pulumi
import pulumi.runtime

from tests.unit.components.recording import EchoMocks


def main(checkout: str, stack: str) -> None:
    """Run the program once, as a preview, and wait for everything that it registered."""
    os.chdir(f"{checkout}/stacks")
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(EchoMocks(), project="gpufleet", stack=stack, preview=True)
    pulumi.runtime.set_all_config({"gpufleet:cloud": "sandbox"})

    @pulumi.runtime.test
    def program() -> None:
        runpy.run_path("__main__.py", run_name="__main__")

    program()


if __name__ == "__main__":
    main(*sys.argv[1:])
