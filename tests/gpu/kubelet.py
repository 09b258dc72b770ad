"""What a kubelet is to a device plugin (k8s.io/kubelet, pkg/apis/deviceplugin/v1beta1): it takes
registrations, lists the devices of a resource, and asks for those of a container.

Needs grpcio and protobuf only, so that it also runs on a host with a real GPU.
"""

from __future__ import annotations

import os
import queue
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "v1beta1"
PLUGINS = "/var/lib/kubelet/device-plugins"
# The plugin always makes its sockets there, so it sees the kubelet's folder in that place.
_IN_PLACE = f'mount -t tmpfs none /var/lib && mkdir -p {PLUGINS} && mount --bind "$0" {PLUGINS} && exec "$@"'
# The fields that are read or written, by message: number, name, type (text, flag or a message), and whether
# there are several.
_MESSAGES: Mapping[str, Sequence[tuple[int, str, str, bool]]] = {
    "Empty": (),
    "RegisterRequest": (
        (1, "version", "text", False),
        (2, "endpoint", "text", False),
        (3, "resource_name", "text", False),
    ),
    "Device": ((1, "ID", "text", False), (2, "health", "text", False)),
    "ListAndWatchResponse": ((1, "devices", "Device", True),),
    "ContainerAllocateRequest": ((1, "devices_ids", "text", True),),
    "AllocateRequest": ((1, "container_requests", "ContainerAllocateRequest", True),),
    "Env": ((1, "key", "text", False), (2, "value", "text", False)),
    "Mount": (
        (1, "container_path", "text", False),
        (2, "host_path", "text", False),
        (3, "read_only", "flag", False),
    ),
    "DeviceSpec": (
        (1, "container_path", "text", False),
        (2, "host_path", "text", False),
        (3, "permissions", "text", False),
    ),
    # A map of protobuf is a list of entries with key and value.
    "ContainerAllocateResponse": (
        (1, "envs", "Env", True),
        (2, "mounts", "Mount", True),
        (3, "devices", "DeviceSpec", True),
    ),
    "AllocateResponse": ((1, "container_responses", "ContainerAllocateResponse", True),),
}
_TYPES = {
    "text": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "flag": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
}


def _messages() -> dict[str, Any]:
    """The classes of the messages."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="device_plugin.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, title, kind, several in fields:
            made = message.field.add(
                name=title,
                number=number,
                label=field.LABEL_REPEATED if several else field.LABEL_OPTIONAL,
                type=_TYPES.get(kind, field.TYPE_MESSAGE),
            )
            if kind not in _TYPES:
                made.type_name = f".{PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in _MESSAGES
    }


MESSAGES = _messages()


class Kubelet:
    """A kubelet in `folder`, where plugins find its socket and make their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registered: queue.Queue[tuple[str, str]] = queue.Queue()
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        register = grpc.unary_unary_rpc_method_handler(
            self._register,
            request_deserializer=MESSAGES["RegisterRequest"].FromString,
            response_serializer=MESSAGES["Empty"].SerializeToString,
        )
        handlers = {"Register": register}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(f"{PACKAGE}.Registration", handlers),)
        )
        self._server.add_insecure_port(f"unix://{folder}/kubelet.sock")
        self._server.start()

    def _register(self, request: Any, context: Any) -> Any:
        self.registered.put((request.resource_name, request.endpoint))
        return MESSAGES["Empty"]()

    def stop(self) -> None:
        """Stop answering."""
        self._server.stop(0)

    def devices(self, endpoint: str) -> list[dict[str, str]]:
        """The devices that the plugin at the socket lists: `ID` and `health`."""
        with grpc.insecure_channel(f"unix://{self.folder}/{endpoint}") as channel:
            watch = channel.unary_stream(
                f"/{PACKAGE}.DevicePlugin/ListAndWatch",
                request_serializer=MESSAGES["Empty"].SerializeToString,
                response_deserializer=MESSAGES["ListAndWatchResponse"].FromString,
            )
            stream = watch(MESSAGES["Empty"](), timeout=30)
            listed = next(iter(stream)).devices
            stream.cancel()
        return [{"ID": device.ID, "health": device.health} for device in listed]

    def allocate(self, endpoint: str, devices: Sequence[str]) -> dict[str, Any]:
        """What a container with these devices gets: `envs`, `mounts` and `devices`; raises grpc.RpcError."""
        wanted = MESSAGES["AllocateRequest"]()
        wanted.container_requests.add(devices_ids=devices)
        with grpc.insecure_channel(f"unix://{self.folder}/{endpoint}") as channel:
            call = channel.unary_unary(
                f"/{PACKAGE}.DevicePlugin/Allocate",
                request_serializer=MESSAGES["AllocateRequest"].SerializeToString,
                response_deserializer=MESSAGES["AllocateResponse"].FromString,
            )
            (given,) = call(wanted, timeout=30).container_responses
        return {
            "envs": {each.key: each.value for each in given.envs},
            "mounts": [[each.container_path, each.host_path] for each in given.mounts],
            "devices": [[each.container_path, each.host_path, each.permissions] for each in given.devices],
        }


@contextmanager
def plugin(
    program: Path, folder: Path, config: str, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[Kubelet, str, str]]:
    """Run NVIDIA's device plugin with a configuration; yields the kubelet, the resource that the plugin has
    registered, and its socket's name. Needs root."""
    kubelet = Kubelet(folder)
    file = folder / "config.yaml"
    file.write_text(config)
    log = folder / "plugin.log"
    options = [f"--config-file={file}", f"--kubelet-socket={folder}/kubelet.sock"]
    command = ["unshare", "--mount", "sh", "-c", _IN_PLACE, folder, program, *options]
    with log.open("w") as output:
        running = subprocess.Popen(
            command, env=os.environ | (environment or {}), stdout=output, stderr=output
        )
        try:
            resource, endpoint = kubelet.registered.get(timeout=60)
            yield kubelet, resource, endpoint
        except queue.Empty:
            raise TimeoutError(f"the plugin registered nothing: {log.read_text()[-2000:]}") from None
        finally:
            running.terminate()
            running.wait(timeout=30)
            kubelet.stop()
