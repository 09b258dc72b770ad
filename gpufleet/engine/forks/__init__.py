"""Python processes of a run, forked from one that has imported their common packages.

A run starts a dozen of them: the program, its policy packs and a process for each provider, for the preview
and again for the update. Each spends most of its time importing the same packages. Here one process imports
them once (`server.py`), and the others are forks of it with their own session, environment, folder and
outputs, like started processes (`client.py`). Other interpreters, and environments that only an
interpreter's start reads, cannot be forked and are started.
"""

from gpufleet.engine.forks.client import ForkServer, Process, end, prepare

__all__ = ["ForkServer", "Process", "end", "prepare"]
