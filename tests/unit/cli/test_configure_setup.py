"""What `gpufleet configure` knows before it runs anything."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpufleet.cli.configure_setup import Setup


@pytest.mark.parametrize(("roles", "alone"), [(("preflight",), True), (("preflight", "munge"), False)])
def test_a_checkout_whose_roles_only_measure_is_told_apart(
    tmp_path: Path, roles: tuple[str, ...], alone: bool
) -> None:
    for role in roles:
        (tmp_path / "ansible" / "roles" / role).mkdir(parents=True)
    setup = Setup.__new__(Setup)
    setup.workspace = SimpleNamespace(root=tmp_path)  # type: ignore[assignment]
    assert setup.measures_alone is alone
