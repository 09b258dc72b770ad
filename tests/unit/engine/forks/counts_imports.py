"""A module that notes each of its imports where COUNTED_IN says."""

import os
from pathlib import Path

with Path(os.environ["COUNTED_IN"]).open("a") as file:
    file.write(f"{os.getpid()}\n")
