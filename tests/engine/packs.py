"""Policy packs for the scenario tests, written with the SDK as a user would."""

from __future__ import annotations

import textwrap
from pathlib import Path

PREAMBLE = """
import os, sys
from pulumi_policy import (
    EnforcementLevel, PolicyConfigSchema, PolicyPack, ResourceValidationPolicy, Severity,
    StackValidationPolicy,
)

def rule(name, check, level=EnforcementLevel.MANDATORY, remediate=None, **more):
    return ResourceValidationPolicy(name, f"{name} says", check, enforcement_level=level,
                                    remediate=remediate, **more)

def stack_rule(name, check, level=EnforcementLevel.MANDATORY, **more):
    return StackValidationPolicy(name, f"{name} says", check, enforcement_level=level, **more)

def boxes(args):
    return [r for r in args.resources if r.resource_type.startswith("box:")]
"""

# A resource policy, a stack policy and a remediation, enough for most tests.
STANDARD = """
def too_big(args, report):
    if args.resource_type == "box:index:Box" and args.props.get("size", 0) > 5:
        report(f"size {args.props['size']} is above 5")

def too_many(args, report):
    if len(boxes(args)) > 3:
        report(f"{len(boxes(args))} boxes are above 3")

PolicyPack("standard", [rule("small", too_big), stack_rule("few", too_many)])
"""


def write_pack(folder: Path, code: str, project: str = 'runtime: python\nversion: "1.2.3"\n') -> Path:
    """Write a pack into `folder`; the SDK's names and `rule`, `stack_rule`, `boxes` are available."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "PulumiPolicy.yaml").write_text(project)
    (folder / "__main__.py").write_text(PREAMBLE + textwrap.dedent(code))
    return folder


def processes_of(folder: Path) -> list[int]:
    """IDs of the processes that run a program in `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_text().replace("\0", " ").split()
            except OSError:
                continue
            if str(folder) in words and "pulumi.policy" in words:
                found.append(int(entry.name))
    return found


# A pack without the SDK: it records its requests and its working folder.
RECORDER = """
import json, time
from concurrent import futures
import grpc
from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc, plugin_pb2

NAMES = ("ORGANIZATION", "PROJECT", "STACK", "DRY_RUN", "CONFIG")

def record(call, request):
    data = json_format.MessageToDict(request) if request is not None else {}
    with open(os.environ["RECORD"], "a") as out:
        out.write(json.dumps({"call": call, "dry": os.environ["PULUMI_DRY_RUN"], "data": data}) + "\\n")

class Recorder(analyzer_pb2_grpc.AnalyzerServicer):
    def GetAnalyzerInfo(self, request, context):
        env = {name: os.environ.get("PULUMI_" + name) for name in NAMES}
        with open(os.environ["RECORD"] + ".env", "a") as out:
            out.write(json.dumps({"cwd": os.getcwd(), **env}) + "\\n")
        info = analyzer_pb2.AnalyzerInfo(name="recorder", version="9", supportsConfig=True)
        one = info.policies.add(name="one", enforcementLevel=analyzer_pb2.ADVISORY)
        one.configSchema.properties.update({"limit": {"type": "integer", "default": 4}})
        info.policies.add(name="two", enforcementLevel=analyzer_pb2.REMEDIATE)
        info.initialConfig["two"].enforcementLevel = analyzer_pb2.MANDATORY
        return info

    def GetPluginInfo(self, request, context):
        # The CLI does not go on with a pack that does not answer this.
        return plugin_pb2.PluginInfo(version="1.0.0")

    def ConfigureStack(self, request, context):
        request.ClearField("tags")
        record("ConfigureStack", request)
        return analyzer_pb2.AnalyzerStackConfigureResponse()

    def Configure(self, request, context):
        record("Configure", request)
        return empty_pb2.Empty()

    def Remediate(self, request, context):
        record("Remediate", request)
        answer = analyzer_pb2.RemediateResponse()
        if request.name == "inner":
            mended = answer.remediations.add(policyName="two", policyPackName="recorder")
            mended.properties.CopyFrom(request.properties)
            mended.properties.update({"mended": True})
        elif request.type == "box:index:Named":
            answer.remediations.add(policyName="two", policyPackName="recorder",
                                    diagnostic="the recorder cannot remediate it")
        return answer

    def Analyze(self, request, context):
        record("Analyze", request)
        return analyzer_pb2.AnalyzeResponse()

    def AnalyzeStack(self, request, context):
        for resource in request.resources:
            record("AnalyzeStack", resource)
        return analyzer_pb2.AnalyzeResponse()

server = grpc.server(futures.ThreadPoolExecutor(4))
analyzer_pb2_grpc.add_AnalyzerServicer_to_server(Recorder(), server)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"""
