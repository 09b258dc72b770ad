"""Runs a Pulumi Python program in this process, as Pulumi's language host does.

The embedded engine starts it as a script, with the addresses of its services. It prints nothing: errors are
logged to the engine. Exit codes: 0 done, 1 failed, 32 failed and the user was already informed.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import functools
import gc
import logging
import os
import runpy
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import grpc
import pulumi
import pulumi.runtime
from pulumi.runtime import resource, settings, stack
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, source_pb2

TOLD_USER = 32


class _EngineLink:
    """The engine's service, without debug lines.

    The SDK sends several for each resource, each in a blocking call, and the engine shows none of them. They
    take almost half of the time of a large program.
    """

    def __init__(self, address: str) -> None:
        self._stub = engine_pb2_grpc.EngineStub(grpc.insecure_channel(address))

    def Log(self, request: engine_pb2.LogRequest) -> Any:  # noqa: N802 - a gRPC method name
        """Pass a line on unless it is a debug line."""
        return None if request.severity == engine_pb2.DEBUG else self._stub.Log(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stub, name)


class _Frames:
    """The module `traceback` for the SDK's source positions of resources, without the text of the lines.

    The SDK asks for the whole stack twice for each resource, and uses names and numbers only.
    """

    FrameSummary = traceback.FrameSummary
    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def extract_stack() -> list[traceback.FrameSummary]:
        """Return the caller's stack, the outermost frame first."""
        found: list[traceback.FrameSummary] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            found.append(
                traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name, lookup_line=False)
            )
            frame = frame.f_back
        return found[::-1]


def _position(frame: traceback.FrameSummary) -> source_pb2.SourcePosition | None:
    """Return the position of a frame, as the SDK's `_get_source_position_for_frame` does."""
    return _position_at(frame.filename, frame.lineno)


@functools.cache
def _position_at(filename: str, line: int | None) -> source_pb2.SourcePosition | None:
    if not filename or line is None:
        return None
    try:
        return source_pb2.SourcePosition(uri=Path(filename).as_uri(), line=line)
    except ValueError:
        # Not a path: the text of an `exec`.
        return None


async def _settle(await_all_outstanding_tasks: bool = True) -> None:
    """Wait for all tasks of the program, as the SDK's `wait_for_rpcs` does.

    The SDK waits for the first of all outputs repeatedly, in quadratic time; here each task is checked
    once. Raises the first exception of an RPC or an output.
    """
    manager = settings._get_rpc_manager()
    finished: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()
    watched = 0
    while True:
        while manager.rpcs:
            await asyncio.sleep(0)
            try:
                await manager.rpcs.pop()
            except Exception as error:
                if manager.unhandled_exception is not None:
                    raise error from manager.unhandled_exception.with_traceback(manager.exception_traceback)
                raise
        if manager.unhandled_exception is not None:
            raise manager.unhandled_exception.with_traceback(manager.exception_traceback)
        if await_all_outstanding_tasks:
            with settings.SETTINGS.lock:
                fresh = list(settings.SETTINGS.outputs)
                settings.SETTINGS.outputs.clear()
            for task in fresh:
                task.add_done_callback(finished.put_nowait)
            watched += len(fresh)
            if watched:
                await (await finished.get())
                watched -= 1
                continue
        if not manager.rpcs:
            return


def own_traceback(error: BaseException, root: Path) -> str:
    """Return the traceback of `error` with the frames of the user's project only (all, if there are none)."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_own(Path(frame.filename), root)]
    lines = ["Traceback (most recent call last):\n"]
    lines += traceback.format_list(own or frames)
    lines += traceback.format_exception_only(error)
    return "".join(lines).rstrip("\n")


def _is_own(file: Path, root: Path) -> bool:
    return (
        file.is_relative_to(root)
        and "site-packages" not in file.parts
        and file.resolve() != Path(__file__).resolve()
    )


def _run(program: Path, root: Path) -> int:
    def program_main() -> None:
        runpy.run_path(str(program), run_name="__main__")

    async def main() -> None:
        await pulumi.runtime.run_in_stack(program_main)

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    parallel = int(pulumi.runtime.settings.SETTINGS.parallel or 1)
    executor = ThreadPoolExecutor(max_workers=max(parallel, 1) * 4)
    loop.set_default_executor(executor)
    # A failed program leaves pending futures; asyncio would report each.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    try:
        loop.run_until_complete(main())
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
        return TOLD_USER
    except SystemExit as error:
        if error.code in (None, 0):
            return 0
        pulumi.log.error(f"The program ended itself with exit code {error.code}")
        return TOLD_USER
    except Exception as error:
        pulumi.log.error("The program failed:\n" + own_traceback(error, root))
        return TOLD_USER
    finally:
        executor.shutdown(wait=True)
        loop.close()
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def main() -> int:
    """Parse the arguments, connect to the engine and run the program."""
    parser = argparse.ArgumentParser(description="Run a Pulumi Python program")
    for name in ("monitor", "engine", "project", "stack", "organization", "root-directory"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--parallel", type=int, required=True)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("program", type=Path)
    args = parser.parse_args()

    config = pulumi.runtime.get_config_env()
    pulumi.runtime.set_all_config(config, pulumi.runtime.get_config_secret_keys_env())
    pulumi.runtime.configure(
        pulumi.runtime.Settings(
            monitor=args.monitor,
            engine=_EngineLink(args.engine),
            project=args.project,
            stack=args.stack,
            parallel=args.parallel,
            dry_run=args.dry_run,
            organization=args.organization,
            root_directory=args.root_directory,
        )
    )
    stack.wait_for_rpcs = _settle
    resource.traceback = _Frames  # type: ignore[assignment, attr-defined]
    resource._get_source_position_for_frame = _position
    # The objects of a large program stay alive: garbage collection found almost nothing and took a fifth
    # of the time.
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    program: Path = args.program
    # The program's folder is first, as when Python runs it. This script's own folder must not be on the
    # path, or the program would import the engine's modules by their bare names.
    sys.path[:] = [
        path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent
    ]
    sys.argv = [str(program)]
    os.chdir(program)
    return _run(program, Path(args.root_directory))


def _leave(code: int) -> NoReturn:
    """End the process like the interpreter, but without destroying every object first.

    That would take a second after the import of a large SDK.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _leave(main())
