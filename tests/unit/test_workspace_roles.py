"""The roles of `aws:assumeRoles` in a stack's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.workspace import Workspace

ARN = "arn:aws:iam::123456789012:role/deploy"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"config:\n  aws:assumeRoles:\n    - roleArn: {ARN}\n      sessionName: fleet\n", 1),
        ("config:\n  aws:assumeRoles:\n    secure: AAABBB\n", 0),
        ("config:\n  aws:assumeRoles:\n    - externalId: x\n", 0),
        ("config:\n  aws:profile: ops\n", 0),
        ("", 0),
    ],
    ids=["role", "encrypted", "without arn", "none", "empty"],
)
def test_roles_are_read_from_the_stacks_settings(tmp_path: Path, text: str, found: int) -> None:
    folder = tmp_path / "stacks"
    folder.mkdir()
    (folder / "Pulumi.dev.yaml").write_text(text)
    roles = Workspace(tmp_path, "dev").assumed_roles("dev")
    assert [role["roleArn"] for role in roles] == [ARN] * found


def test_stack_without_settings_assumes_no_role(tmp_path: Path) -> None:
    assert Workspace(tmp_path, "dev").assumed_roles("dev") == ()
