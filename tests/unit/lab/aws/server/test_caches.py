"""What the server parses and computes once."""

from __future__ import annotations

import subprocess
import sys

_COUNT = """
import collections, pathlib
from botocore.loaders import JSONFileLoader
from gpufleet.lab.aws.faults.inject import Injector
from gpufleet.lab.aws.server.app import SandboxApp
parsed = collections.Counter()
real = JSONFileLoader._load_file
def counted(self, path, *rest):
    found = real(self, path, *rest)
    file = pathlib.PurePath(path)
    parsed[file.parts[-3]] += found is not None and file.name.startswith("service-2.json")
    return found
JSONFileLoader._load_file = counted
SandboxApp(lambda: None, Injector(pathlib.Path("none")), lambda _: None).load()
print(*sorted(name for name, times in parsed.items() if times == 1))
print(*sorted(name for name, times in parsed.items() if times > 1))
"""


def test_each_service_model_is_parsed_once() -> None:
    once, again = subprocess.run(
        [sys.executable, "-c", _COUNT], capture_output=True, text=True, check=True
    ).stdout.split("\n")[:2]
    assert {"ec2", "iam", "eks", "fsx"} <= set(once.split())
    assert again == ""
