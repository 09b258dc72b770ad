"""Kernel arguments: GRUB's configuration and the running kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

from tests.unit.ansible.collection.conftest import load

GRUB = """\
menuentry 'A' {{
	linux /vmlinuz root=/dev/sda1 quiet {one}
}}
menuentry 'B' {{
	linux /old {two}
}}
"""
ARGUMENTS = ["iommu=pt", "init_on_alloc=0"]


def root(folder: Path, *, running: str, one: str, two: str) -> Path:
    for name in ("proc/77", "run", "boot/grub", "etc/default"):
        (folder / name).mkdir(parents=True)
    (folder / "proc/cmdline").write_text(f"BOOT_IMAGE=/vmlinuz {running}\n")
    (folder / "boot/grub/grub.cfg").write_text(GRUB.format(one=one, two=two))
    return folder


def test_host_with_the_arguments_needs_no_change(tmp_path: Path) -> None:
    module, both = load("kernel_arguments"), " ".join(ARGUMENTS)
    host = root(tmp_path, running=both, one=both, two=both)
    (host / module.DROP_IN).parent.mkdir()
    (host / module.DROP_IN).write_text(module.drop_in(ARGUMENTS))
    assert module.differences(host, ARGUMENTS) == []
    assert module.reasons(host, ARGUMENTS, updates=True) == []


def test_grub_is_updated_if_an_entry_lacks_an_argument(tmp_path: Path) -> None:
    module, both = load("kernel_arguments"), " ".join(ARGUMENTS)
    host = root(tmp_path, running=both, one=both, two="iommu=pt")
    (host / module.DROP_IN).parent.mkdir()
    (host / module.DROP_IN).write_text(module.drop_in(ARGUMENTS))
    # As after a run that was killed between the drop-in and update-grub.
    assert module.differences(host, ARGUMENTS) == ["grub"]


def test_reboot_is_needed_while_the_running_kernel_lacks_an_argument(tmp_path: Path) -> None:
    module = load("kernel_arguments")
    host = root(tmp_path, running="iommu=pt-broken init_on_alloc=0", one="", two="")
    assert module.differences(host, ARGUMENTS) == ["write", "grub"]
    assert module.reasons(host, ARGUMENTS, updates=False) == ["the kernel runs without iommu=pt"]


def test_removed_arguments_and_their_drop_in_are_deleted(tmp_path: Path) -> None:
    module = load("kernel_arguments")
    host = root(tmp_path, running="iommu=pt", one="iommu=pt", two="iommu=pt")
    assert module.differences(host, []) == []
    (host / module.DROP_IN).parent.mkdir()
    (host / module.DROP_IN).write_text(module.drop_in(["iommu=pt"]))
    assert module.differences(host, []) == ["remove", "grub"]
    assert module.reasons(host, [], updates=True) == []


def test_pending_updates_need_a_reboot_only_where_configured(tmp_path: Path) -> None:
    module = load("kernel_arguments")
    host = root(tmp_path, running="", one="", two="")
    (host / "run/reboot-required").touch()
    (host / "run/reboot-required.pkgs").write_text("linux-base\nlinux-image-6.8.0-90\nlinux-base\n")
    reported = module.reasons(host, [], updates=True)
    assert reported == ["updates wait for it (linux-base, linux-image-6.8.0-90)"]
    assert module.reasons(host, [], updates=False) == []


def test_grub_generates_the_configuration_and_it_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("kernel_arguments")
    host = root(tmp_path / "host", running="", one="", two="")
    program = tmp_path / "update-grub"
    monkeypatch.setattr(module.shutil, "which", lambda *_, **__: str(program))
    good = GRUB.format(one="iommu=pt", two="iommu=pt")
    program.write_text(
        f"#!/bin/sh\n. {host}/{module.DROP_IN}\ncat >{host}/{module.GRUB} <<'END'\n{good}END\n"
    )
    program.chmod(0o755)
    module.apply(host, ["write", "grub"], ["iommu=pt"])
    assert module.differences(host, ["iommu=pt"]) == []
    program.write_text(f"#!/bin/sh\n: >{host}/{module.GRUB}\n")
    with pytest.raises(RefusalError, match="without iommu=pt"):
        module.apply(host, ["write", "grub"], ["iommu=pt"])
    monkeypatch.setattr(module.shutil, "which", lambda *_, **__: None)
    with pytest.raises(RefusalError, match="no update-grub"):
        module.apply(host, ["write", "grub"], ["iommu=pt"])


@pytest.mark.parametrize("image", ["/boot/memtest86+x64.efi", "/memtest86+ia32.bin console=ttyS0,115200"])
def test_an_entry_for_a_memory_test_needs_no_kernel_arguments(image: str) -> None:
    module, both = load("kernel_arguments"), " ".join(ARGUMENTS)
    text = GRUB.format(one=both, two=both) + f"menuentry 'Memory test' {{\n\tlinux {image}\n}}\n"
    assert module.lacking_in_grub(text, ARGUMENTS) == []
    assert module.lacking_in_grub(f"\tlinux {image}\n", ARGUMENTS) == ARGUMENTS
