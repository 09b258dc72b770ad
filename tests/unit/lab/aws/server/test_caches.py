"""What the server parses and computes once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
app = SandboxApp(lambda: None, Injector(pathlib.Path("none")), lambda _: None)
app.load(creates=False)
print(*sorted(app._moto.app_instances))
app.load(creates=True)
print(*sorted(app._moto.app_instances))
print(*sorted(name for name, times in parsed.items() if times == 1))
print(*sorted(name for name, times in parsed.items() if times > 1))
"""


def test_each_service_model_is_parsed_once_and_a_preview_needs_only_those_of_its_look_ups() -> None:
    reads, created, once, again = subprocess.run(
        [sys.executable, "-c", _COUNT], capture_output=True, text=True, check=True
    ).stdout.split("\n")[:4]
    assert reads.split() == ["ec2", "ssm", "sts"]
    assert set(created.split()) > {"ec2", "ssm", "sts", "eks", "fsx", "iam", "s3"}
    assert {"ec2", "iam", "eks", "fsx"} <= set(once.split())
    assert again == ""


_NAMES = """
import botocore.session
from botocore.hooks import EventAliaser
asked = []
real = EventAliaser._alias_event_name
EventAliaser._alias_event_name = lambda self, name: asked.append(name) or real(self, name)
from gpufleet.lab.aws.server import caches
caches.enable()
botocore.session.get_session()
first = len(asked)
botocore.session.get_session()
print(first > 100, len(asked) == first)
session = botocore.session.get_session()
print(session.get_component("event_emitter")._alias_event_name("before-call.apigateway.X"))
"""


def test_sessions_look_up_the_names_of_events_once() -> None:
    answers = subprocess.run(
        [sys.executable, "-c", _NAMES], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert answers == ["True True", "before-call.api-gateway.X"]


_MODELS = """
import os, pathlib, sys
import botocore.session
from gpufleet.lab.aws.server import caches
caches.enable()
file = pathlib.Path(sys.argv[1], "toys", "1", "service-2.json")
file.parent.mkdir(parents=True)
file.write_text("{}")
print("toys" in botocore.session.get_session().get_available_services())
os.environ["AWS_DATA_PATH"] = sys.argv[1]
print("toys" in botocore.session.get_session().get_available_services())
"""


def test_sessions_with_a_folder_of_models_do_not_share(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _MODELS, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == [
        "False",
        "True",
    ]
