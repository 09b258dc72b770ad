"""Modules of the GPU roles: container runtimes, kernel modules, nccl-tests."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.ansible.gpu_roles import load_module

MAKEFILE = """\
all:
\ttest -x $(CUDA_HOME)/bin/nvcc && test "$(MPI)" = 0
\tmkdir -p build
\tcp source.txt build/all_reduce_perf
"""


@pytest.fixture
def guarded() -> list[tuple[str, str]]:
    """Changes that the guard let pass, and what each stops."""
    return []


@pytest.fixture
def runtimes(guarded: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load_module("plugins/modules/container_toolkit_runtimes.py")
    monkeypatch.setattr(
        module, "take_out_of_service", lambda change, *, stops, check: guarded.append((change, stops))
    )
    return module


class Runtimes:
    """A host with Docker or containerd, for the module."""

    def __init__(self, base: type, root: Path, started: float | None) -> None:
        self.base = base(root)
        self.root = root
        self.started_at = started
        self.containerd_cdi = False
        self.calls: list[tuple[str, ...]] = []

    def uses_cdi(self, runtime: str) -> bool:
        return self.containerd_cdi if runtime == "containerd" else self.base.uses_cdi(runtime)

    def written(self, runtime: str) -> float:
        return self.base.written(runtime)

    def started(self, runtime: str) -> float | None:
        return self.started_at

    def ignores_environment(self) -> bool:
        return bool(self.base.ignores_environment())

    def run(self, *command: str) -> tuple[int, str]:
        self.calls.append(command)
        if command[:2] == ("nvidia-ctk", "config"):
            config, setting = command[3].partition("=")[2], command[4].partition("=")[2]
            key, _, value = setting.partition("=")
            file = self.root / config[1:]
            file.write_text(file.read_text().replace(f"#{key} = true", f"{key} = {value}"))
        elif command[:3] == ("nvidia-ctk", "runtime", "configure"):
            path = self.root / "etc/docker/daemon.json"
            known = json.loads(path.read_text()) if path.exists() else {}
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(known | {"features": {"cdi": True}}))
            self.containerd_cdi = True
        elif command[1] == "restart":
            self.started_at = 9e9
        return 0, ""


def test_cdi_is_enabled_once_and_other_settings_stay(
    runtimes: ModuleType, tmp_path: Path, guarded: list[tuple[str, str]]
) -> None:
    (tmp_path / "etc/docker").mkdir(parents=True)
    (tmp_path / "etc/docker/daemon.json").write_text('{"data-root": "/scratch"}')
    host = Runtimes(runtimes.RuntimeHost, tmp_path, started=1.0)
    assert runtimes.ensure(host, "docker", check=True) == ["configure", "restart"]
    assert host.calls == []
    assert runtimes.ensure(host, "docker", check=False) == ["configure", "restart"]
    assert json.loads((tmp_path / "etc/docker/daemon.json").read_text())["data-root"] == "/scratch"
    assert runtimes.ensure(host, "docker", check=False) == []
    assert guarded == [("docker restarts", "containers")] * 2


def test_runtime_is_neither_configured_nor_restarted_while_containers_run(
    runtimes: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise runtimes.RefusalError("in use by container notebook")

    monkeypatch.setattr(runtimes, "take_out_of_service", refuse)
    host = Runtimes(runtimes.RuntimeHost, tmp_path, started=1.0)
    for runtime in ("docker", "containerd"):
        with pytest.raises(runtimes.RefusalError, match="in use by container notebook"):
            runtimes.ensure(host, runtime, check=False)
    assert host.calls == []


def test_runtime_older_than_its_configuration_is_restarted(runtimes: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "etc/docker").mkdir(parents=True)
    path = tmp_path / "etc/docker/daemon.json"
    path.write_text('{"features": {"cdi": true}}')
    os.utime(path, (2000, 2000))
    assert runtimes.ensure(
        Runtimes(runtimes.RuntimeHost, tmp_path, started=1000.0), "docker", check=False
    ) == ["restart"]
    assert (
        runtimes.ensure(Runtimes(runtimes.RuntimeHost, tmp_path, started=2000.0), "docker", check=False) == []
    )
    # A stopped one reads it when it starts.
    assert (
        runtimes.ensure(Runtimes(runtimes.RuntimeHost, tmp_path, started=None), "docker", check=False) == []
    )


def test_containerd_with_built_in_cdi_is_unchanged(runtimes: ModuleType, tmp_path: Path) -> None:
    host = Runtimes(runtimes.RuntimeHost, tmp_path, started=1.0)
    host.containerd_cdi = True
    assert runtimes.ensure(host, "containerd", check=False) == []
    assert host.calls == []


def test_environment_of_unprivileged_containers_is_ignored_once(runtimes: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "etc/nvidia-container-runtime/config.toml"
    path.parent.mkdir(parents=True)
    # As the toolkit's package writes it: lines with defaults are comments.
    key = "accept-nvidia-visible-devices-envvar-when-unprivileged"
    path.write_text(f"#{key} = true\ndisable-require = false\n")
    host = Runtimes(runtimes.RuntimeHost, tmp_path, started=1.0)
    assert runtimes.restrict(host, check=True) == ["configure"]
    assert host.calls == []
    assert runtimes.restrict(host, check=False) == ["configure"]
    assert path.read_text() == f"{key} = false\ndisable-require = false\n"
    assert runtimes.restrict(host, check=False) == []
    assert len(host.calls) == 1


def test_toolkit_that_does_not_take_the_setting_is_named(runtimes: ModuleType, tmp_path: Path) -> None:
    host = Runtimes(runtimes.RuntimeHost, tmp_path, started=1.0)
    host.run = lambda *_: (1, "unable to create config")  # type: ignore[method-assign]
    with pytest.raises(runtimes.RefusalError, match=r"did not set accept-nvidia.*unable to create config"):
        runtimes.restrict(host, check=False)


def test_invalid_docker_configuration_is_named(runtimes: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "etc/docker").mkdir(parents=True)
    (tmp_path / "etc/docker/daemon.json").write_text('{"data-root": ')
    with pytest.raises(runtimes.RefusalError, match=r"daemon\.json is no JSON object"):
        runtimes.RuntimeHost(tmp_path).uses_cdi("docker")


def test_loaded_modules_are_not_loaded_again(tmp_path: Path) -> None:
    module = load_module("plugins/modules/kernel_modules.py")
    (tmp_path / "sys/module/nvidia_peermem").mkdir(parents=True)
    assert module.missing(["nvidia-peermem", "gdrdrv"], tmp_path) == ["gdrdrv"]


@pytest.fixture(scope="module")
def tests_module() -> ModuleType:
    return load_module("plugins/modules/nccl_tests.py")


@pytest.fixture
def cuda(tmp_path: Path) -> Path:
    compiler = tmp_path / "cuda/bin/nvcc"
    compiler.parent.mkdir(parents=True)
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    return tmp_path / "cuda"


def archive(tmp_path: Path, text: str, makefile: str = MAKEFILE) -> tuple[str, str]:
    source = tmp_path / "nccl-tests-2.18.3"
    source.mkdir(exist_ok=True)
    (source / "Makefile").write_text(makefile)
    (source / "source.txt").write_text(text)
    path = tmp_path / "nccl-tests.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(source, source.name)
    return str(path), hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.fresh
def test_nccl_tests_are_rebuilt_when_anything_changes(
    tests_module: ModuleType, tmp_path: Path, cuda: Path
) -> None:
    target = tmp_path / "opt"
    path, digest = archive(tmp_path, "one")
    assert not tests_module.built(target, "2.18.3", "a")
    tests_module.make(target, "2.18.3", path, digest, str(cuda), "a")
    assert tests_module.built(target, "2.18.3", "a")
    assert not tests_module.built(target, "2.18.3", "b")
    assert (target / "current/all_reduce_perf").read_text() == "one"

    path, digest = archive(tmp_path, "two")
    tests_module.make(target, "2.19.0", path, digest, str(cuda), "b")
    assert (target / "current/all_reduce_perf").read_text() == "two"
    assert (target / "2.18.3/all_reduce_perf").read_text() == "one"
    assert sorted(item.name for item in target.iterdir()) == ["2.18.3", "2.19.0", "current"]


def test_archive_with_another_checksum_is_not_built(
    tests_module: ModuleType, tmp_path: Path, cuda: Path
) -> None:
    path, _ = archive(tmp_path, "one")
    with pytest.raises(tests_module.BuildError, match="Do not use it before you know why"):
        tests_module.make(tmp_path / "opt", "2.18.3", path, "0" * 64, str(cuda), "a")
    assert list((tmp_path / "opt").iterdir()) == []


def test_failed_build_is_reported_and_leaves_no_files(
    tests_module: ModuleType, tmp_path: Path, cuda: Path
) -> None:
    path, digest = archive(tmp_path, "one", "all:\n\t@echo no rule for this CUDA; false\n")
    with pytest.raises(tests_module.BuildError, match="no rule for this CUDA"):
        tests_module.make(tmp_path / "opt", "2.18.3", path, digest, str(cuda), "a")
    assert list((tmp_path / "opt").iterdir()) == []
    with pytest.raises(tests_module.BuildError, match="built with a CUDA toolkit"):
        tests_module.make(tmp_path / "opt", "2.18.3", path, digest, str(tmp_path / "none"), "a")


def test_archive_with_paths_outside_is_refused(tests_module: ModuleType, tmp_path: Path, cuda: Path) -> None:
    for name, kind in (
        ("../escaped", tarfile.REGTYPE),
        ("/etc/escaped", tarfile.REGTYPE),
        ("a", tarfile.SYMTYPE),
    ):
        path = tmp_path / "bad.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        with pytest.raises(tests_module.BuildError, match="no file or folder inside it"):
            tests_module.make(tmp_path / "opt", "2.18.3", str(path), digest, str(cuda), "a")
        assert list((tmp_path / "opt").iterdir()) == []
