"""Ansible's shapes of a diff, made one."""

from __future__ import annotations

import pytest

from gpufleet.racks.diffs import LONGEST_DIFF, Diff, task_diffs


@pytest.mark.parametrize(
    ("result", "diffs"),
    [
        ({}, ()),
        ({"diff": {"before": "a\n", "after": "a\n"}}, ()),
        (
            {"dest": "/etc/x", "diff": {"before": "a\n", "after": "b\n"}},
            (Diff("/etc/x", "@@ -1 +1 @@\n-a\n+b"),),
        ),
        (
            {"diff": [{"before": "", "after": "b\n", "after_header": "/etc/y (content)"}]},
            (Diff("/etc/y", "@@ -0,0 +1 @@\n+b"),),
        ),
        ({"diff": {"prepared": "+installed\n"}}, (Diff("", "+installed"),)),
        ({"path": "/x", "diff": {"src_binary": "f"}}, (Diff("/x", "(binary content)"),)),
        ({"diff": "nonsense"}, ()),
        ({"diff": [None, {}]}, ()),
    ],
)
def test_diff_is_one_text_with_its_path(result, diffs):
    assert task_diffs(result) == diffs


def test_changed_attributes_are_shown_by_name():
    (diff,) = task_diffs({"diff": {"before": {"mode": "0644"}, "after": {"mode": "0600"}}})
    assert '- "mode": "0644"' in diff.text
    assert '+ "mode": "0600"' in diff.text


def test_loop_items_have_their_own_diffs():
    items = [{"path": f"/{n}", "diff": {"before": "", "after": f"{n}\n"}} for n in range(3)]
    assert [diff.what for diff in task_diffs({"results": [*items, {"skipped": True}, "odd"]})] == [
        "/0",
        "/1",
        "/2",
    ]


def test_long_diff_is_truncated_and_marked():
    (diff,) = task_diffs({"diff": {"before": "", "after": "line\n" * 5000}})
    assert len(diff.text) < LONGEST_DIFF + 60
    assert "characters more" in diff.text
