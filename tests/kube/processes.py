"""Programs beside the API server: on loopback, and ended with the process that started them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.kube.build import program
from tests.kube.cluster import ApiServerProcess

_CONTROLLERS = {"kube-controller-manager": ["--controllers=node-lifecycle-controller"]}


def run(folder: Path, *command: str | Path) -> subprocess.Popen[bytes]:
    """Start a program in a folder, where its log is."""
    with (folder / f"{Path(command[0]).name}.log").open("ab") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )


def run_controller(
    folder: Path, server: ApiServerProcess, name: str, port: int, *flags: str
) -> subprocess.Popen[bytes]:
    """Start a scheduler, or a controller manager that watches nodes only, with rights of an administrator."""
    identity = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return run(
        folder,
        program(name, server.minor),
        *(f"--{flag}={server.kubeconfig}" for flag in identity),
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--client-ca-file={server.folder}/ca.crt",
        "--leader-elect=true",
        *_CONTROLLERS.get(name, []),
        *flags,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program."""
    process.kill()
    process.wait(30)
