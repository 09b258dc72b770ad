"""Archives in the provider protocol: hashes stay, also where an engine leaves contents out."""

from __future__ import annotations

import asyncio
from typing import Any

from google.protobuf import json_format, struct_pb2
from pulumi.provider.experimental import provider as api
from pulumi.runtime import proto
from pulumi.runtime.rpc import _special_archive_sig, _special_asset_sig, _special_sig_key

from gpufleet.lab.aws.provider.compare import differences
from gpufleet.lab.aws.provider.resources.lambda_function import Function
from gpufleet.lab.aws.provider.wire import ARCHIVE, plain_map
from gpufleet.lab.protocol import DiffRequest, Servicer

HASHED = {_special_sig_key: _special_archive_sig, "hash": "abc"}
FULL = {**HASHED, "assets": {"a": {_special_sig_key: _special_asset_sig, "text": "print()", "hash": "def"}}}


class Recorder(api.Provider):
    """Returns the inputs of a check, and keeps the plain values of a request."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    async def check(self, request: api.CheckRequest) -> api.CheckResponse:
        self.seen = [plain_map(request.new_inputs)]
        return api.CheckResponse(request.new_inputs, [])

    async def diff(self, request: api.DiffRequest) -> api.DiffResponse:
        assert isinstance(request, DiffRequest)
        self.seen = [plain_map(each) for each in (request.old_inputs, request.new_inputs)]
        return api.DiffResponse([], [], False, False, {})


def struct(code: Any) -> struct_pb2.Struct:
    return json_format.ParseDict({"other": [{"code": code}], "code": code}, struct_pb2.Struct())


def test_archive_is_returned_as_it_came() -> None:
    provider = Recorder()
    request = proto.CheckRequest(urn="urn:pulumi:a::b::aws:lambda/function:Function::c", news=struct(FULL))
    answer = asyncio.run(Servicer(provider, "1").Check(request, None))
    assert answer.inputs == struct(FULL)
    assert provider.seen[0]["code"]["assets"]["a"]["text"] == "print()"


def test_archive_without_contents_differs_by_its_hash() -> None:
    provider = Recorder()
    request = proto.DiffRequest(id="i", old_inputs=struct(HASHED), news=struct({**HASHED, "hash": "new"}))
    asyncio.run(Servicer(provider, "1").Diff(request, None))
    old, new = provider.seen
    assert old["code"][ARCHIVE] and old["code"]["hash"] == "abc"
    handler = Function()
    assert [
        (each.path, each.kind) for each in differences(handler, {"code": old["code"]}, {"code": new["code"]})
    ] == [("code", "update")]
    # Contents of the same hash make no difference.
    assert not list(
        differences(handler, {"code": old["code"]}, {"code": {**old["code"], "assets": {"a": {}}}})
    )
