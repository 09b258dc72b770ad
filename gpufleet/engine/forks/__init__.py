"""Python processes of a run, forked from one that has imported what they all need.

A run starts a dozen of them: the program, its policy packs and a process for each provider, for the
preview and again for the update. Most of the time of each goes into importing the same packages. Here
one process imports them once (`server.py`), and each of the others is a fork of it, which has its own
session, environment, folder and outputs, as if it had been started (`client.py`). What cannot be forked
so is started as ever: other interpreters, and environments that only an interpreter's start reads.
"""

from gpufleet.engine.forks.client import ForkServer, Process, end, prepare

__all__ = ["ForkServer", "Process", "end", "prepare"]
