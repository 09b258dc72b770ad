"""Security contexts of pods that need no rights on their node."""

from __future__ import annotations

from gpufleet.components.pod_security import NOBODY, as_nobody, unprivileged


def test_container_has_no_capabilities_and_gains_none() -> None:
    for read_only in (True, False):
        context = unprivileged(read_only=read_only)
        assert context.allow_privilege_escalation is False
        assert context.capabilities.drop == ["ALL"]
        assert context.read_only_root_filesystem is (True if read_only else None)


def test_pod_runs_as_a_user_without_files_and_with_the_filter_of_system_calls() -> None:
    context = as_nobody(fs_group=NOBODY)
    assert context.run_as_non_root is True
    assert (context.run_as_user, context.run_as_group, context.fs_group) == (NOBODY, NOBODY, NOBODY)
    assert context.seccomp_profile.type == "RuntimeDefault"
    assert as_nobody().fs_group is None
