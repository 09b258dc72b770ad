"""A module that records each of its imports in COUNTED_IN."""

import os
from pathlib import Path

with Path(os.environ["COUNTED_IN"]).open("a") as file:
    file.write(f"{os.getpid()}\n")
