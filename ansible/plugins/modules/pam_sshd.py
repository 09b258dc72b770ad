#!/usr/bin/python
"""Lines of /etc/pam.d/sshd that tie ssh logins to Slurm jobs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pam_sshd
short_description: Ties ssh logins to Slurm jobs
description:
  - Adds C(pam_slurm_adopt) to the account stack of C(/etc/pam.d/sshd), after all other account lines. Users
    without a job on the host are refused, and logins of others become part of their job.
  - Users for whom the program C(admin) exits with 0 skip it.
  - Writes the lines of C(common-session) into the file, where C(pam_systemd) is for these users only. It
    would move a login out of its job's control group.
  - Changes no other file of PAM, so that no other program is affected. The lines are between marks.
options:
  tied:
    description: Whether logins need a job. Otherwise the file is as it was before.
    type: bool
    required: true
  admin:
    description: Program that exits with 0 if the user of C(PAM_USER) is an administrator.
    type: path
    required: true
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Tie ssh logins to jobs
  gpufleet.rack.pam_sshd:
    tied: true
    admin: /usr/lib/gpufleet/ssh-admin
"""

RETURN = r"""
diff:
  description: The difference of the file.
  type: list
  returned: always
"""

import os
import re
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

FOLDER = Path("/etc/pam.d")
BEGIN, END = "# BEGIN gpufleet: ", "# END gpufleet"
ACCOUNT = f"{BEGIN}logins need a job on this node; administrators do not"
SESSION = (
    f"{BEGIN}common-session, with pam_systemd for administrators only: it would move logins out of their job"
)
COMMON_SESSION = "@include common-session"
# SchedMD advises `deny` for both failures and the `-`, and to have the line last in the stack
# (slurm.schedmd.com/pam_slurm_adopt.html). Administrators skip the line: a missing module or a broken Slurm
# does not lock them out.
ADOPT = "-account required pam_slurm_adopt.so action_adopt_failure=deny action_generic_failure=deny"


def untied(text: str) -> str:
    """The file without the lines of this module."""
    text = re.sub(rf"(?ms)^{re.escape(SESSION)}\n.*?^{END}\n", f"{COMMON_SESSION}\n", text)
    return re.sub(rf"(?ms)^{re.escape(BEGIN)}.*?^{END}\n", "", text)


def tied(text: str, session: str, admin: str) -> str:
    """The file with the lines of this module; `session` is the text of common-session."""
    lines = untied(text).splitlines()
    last = max((place for place, line in enumerate(lines) if is_account(line)), default=-1)
    # An administrator jumps over the next line.
    skip = f"account [success=1 default=ignore] pam_exec.so quiet {admin}"
    lines[last + 1 : last + 1] = [ACCOUNT, skip, ADOPT, END]
    if COMMON_SESSION in lines:
        place = lines.index(COMMON_SESSION)
        lines[place : place + 1] = [SESSION, *session_lines(session, admin), END]
    return "\n".join(lines) + "\n"


def is_account(line: str) -> bool:
    """Whether a line of a PAM file belongs to the account stack."""
    words = line.split()
    return bool(words) and (words[0].lstrip("-") == "account" or words[:2] == ["@include", "common-account"])


def session_lines(session: str, admin: str) -> list[str]:
    """The lines of common-session, with those of pam_systemd at the end and only for administrators.

    A line that does nothing takes their place: lines before them may jump over a number of lines.
    """
    lines, moved = [], []
    for line in session.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if re.search(r"\bpam_systemd\.so\b", line):
            moved.append(line)
            line = "session optional pam_permit.so"
        lines.append(line)
    if moved:
        lines.append(f"session [success=ignore default={len(moved)}] pam_exec.so quiet {admin}")
    return lines + moved


def read(path: Path, check: bool) -> str:
    """The text of a PAM file; in check mode it may not exist yet."""
    try:
        return path.read_text()
    except FileNotFoundError:
        if check:
            return ""
        raise RefusalError(
            f"{path} does not exist: ssh logins cannot be tied to jobs. Install openssh-server and "
            "libpam-runtime, or set `slurm: {ssh_requires_job: false}` of the site."
        ) from None


def write(path: Path, text: str) -> None:
    """Replace the file atomically; owner and mode stay."""
    about = path.stat()
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chown(name, about.st_uid, about.st_gid)
        Path(name).chmod(about.st_mode & 0o7777)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare and write; the result for Ansible."""
    path = FOLDER / "sshd"
    if not params["tied"] and not path.exists():
        return {"changed": False, "diff": []}
    old = read(path, check)
    new = (
        tied(old, read(FOLDER / "common-session", check), params["admin"]) if params["tied"] else untied(old)
    )
    if new == old:
        return {"changed": False, "diff": []}
    if not check:
        write(path, new)
    return {"changed": True, "diff": [difference(str(path), old, new)]}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "tied": {"type": "bool", "required": True},
            "admin": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
