#!/usr/bin/python
"""All files, folders and links of a role, in one round trip."""

from __future__ import annotations

DOCUMENTATION = r"""
module: files
short_description: Manages files, folders and links
description:
  - Writes each file atomically, and only if content, owner or mode differ.
  - In check mode an owner that does not exist yet counts as a difference.
options:
  files:
    description: Items, in order.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Path.
        type: path
        required: true
      content:
        description: Text of the file.
        type: str
      template:
        description: Template of the role's C(templates/), rendered on the controller.
        type: str
      source:
        description: File of the role's C(files/), unchanged.
        type: str
      shared:
        description: File of the collection's C(module_utils), for host programs that share code.
        type: str
      link:
        description: Target of a symbolic link.
        type: str
      directory:
        description: Whether it is a folder.
        type: bool
        default: false
      absent:
        description: Whether to remove it; a folder is removed with its contents.
        type: bool
        default: false
      owner:
        description: Owner.
        type: str
        default: root
      group:
        description: Group.
        type: str
        default: root
      mode:
        description: Permissions in octal digits; defaults to C(0644) for files and C(0755) for folders.
        type: str
      overwrite:
        description: Whether to change what exists; otherwise it stays as it is, with its owner and mode.
        type: bool
        default: true
      validate:
        description: Command that validates the new text before it replaces the old one; C(%s) is its path.
        type: str
      secret:
        description: Whether to hide its text in the diff.
        type: bool
        default: false
      when:
        description: Whether to apply the item.
        type: bool
        default: true
  diff:
    description: Whether to return differences; set by the action.
    type: bool
    default: false
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Configure munge
  gpufleet.rack.files:
    files:
      - {path: /etc/munge/munge.key, content: "{{ munge_key }}", owner: munge, group: munge,
         mode: "0400", secret: true}
  no_log: true
"""

RETURN = r"""
changed_files:
  description: Changed paths.
  type: list
  returned: always
"""

import errno
import grp
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish


def number_of(item: dict[str, Any], kind: str, check: bool) -> int | None:
    """UID or GID; None if it is unknown in check mode."""
    name = item[kind]
    if name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid if kind == "owner" else grp.getgrnam(name).gr_gid
    except KeyError:
        if check:
            return None
        raise RefusalError(
            f"{item['path']} should belong to {kind} {name}, which the host does not have. "
            "The package that makes it has to be installed first."
        ) from None


def mode_of(item: dict[str, Any]) -> int:
    """Permissions as a number."""
    text = item["mode"] or ("0755" if item["directory"] else "0644")
    try:
        return int(text, 8)
    except ValueError:
        raise RefusalError(f'{item["path"]}: mode {text!r} is not octal; write it as "0644".') from None


def read(path: Path) -> str | None:
    """The text of a regular file, or None if there is none."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        return path.read_bytes().decode("utf-8", "backslashreplace")
    except (FileNotFoundError, NotADirectoryError):
        return None


def validate(command: str, text: str, path: Path, mode: int, check: bool) -> None:
    """Validate the text with a program; raises with its output."""
    words = shlex.split(command)
    if shutil.which(words[0], path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") is None:
        if check:
            return
        raise RefusalError(f"{path} is to be judged by {words[0]}, which is not installed on the host.")
    # Use the final name: some programs depend on the suffix.
    folder = tempfile.mkdtemp()
    try:
        candidate = Path(folder) / path.name
        candidate.touch(mode=0o600)
        candidate.write_text(text)
        candidate.chmod(mode)
        done = subprocess.run(
            [word.replace("%s", str(candidate)) for word in words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=60,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )
        if done.returncode:
            output = (done.stderr.strip() or done.stdout.strip()).replace(str(candidate), str(path))
            raise RefusalError(
                f"{words[0]} refuses the new {path}: {output[-600:]} The old file was left as it is."
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def own(path: Path, uid: int, gid: int, mode: int) -> None:
    """Set owner and mode in the order that never exposes the file."""
    os.chown(path, uid, gid, follow_symlinks=False)
    path.chmod(mode)


def make_parents(path: Path) -> None:
    """Create missing parent folders."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)


def write(path: Path, text: str, uid: int, gid: int, mode: int) -> None:
    """Replace a file atomically; a killed run leaves the old or the new one."""
    make_parents(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        own(Path(name), uid, gid, mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def attributes(path: Path, uid: int | None, gid: int | None, mode: int) -> list[str]:
    """Differences of owner, group and mode."""
    found = path.lstat()
    words = []
    if uid is None or found.st_uid != uid:
        words.append("owner")
    if gid is None or found.st_gid != gid:
        words.append("group")
    if stat.S_IMODE(found.st_mode) != mode:
        words.append(f"mode {stat.S_IMODE(found.st_mode):04o} -> {mode:04o}")
    return words


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with its contents."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def apply_absent(item: dict[str, Any], check: bool) -> dict[str, str] | None:
    """Remove an absent item."""
    path = Path(item["path"])
    if not os.path.lexists(path):
        return None
    if not check:
        remove(path)
    return difference(item["path"], "present\n", "absent\n")


def apply_link(item: dict[str, Any], check: bool) -> dict[str, str] | None:
    """A symbolic link; replaces a file, never a folder."""
    path, target = Path(item["path"]), item["link"]
    old = str(path.readlink()) if path.is_symlink() else None
    if old == target:
        return None
    if path.is_dir() and not path.is_symlink():
        raise RefusalError(
            f"{path} is a folder and should be a link to {target}. Move it away and run again."
        )
    if not check:
        make_parents(path)
        new = path.with_name(f".{path.name}.gpufleet")
        new.unlink(missing_ok=True)
        new.symlink_to(target)
        new.replace(path)
    return difference(item["path"], f"-> {old}\n" if old else "", f"-> {target}\n")


def apply_directory(item: dict[str, Any], check: bool) -> dict[str, str] | None:
    """A folder with its owner and mode."""
    path = Path(item["path"])
    uid, gid, mode = number_of(item, "owner", check), number_of(item, "group", check), mode_of(item)
    there = path.is_dir()
    if not there and os.path.lexists(path):
        raise RefusalError(f"{path} is not a folder and should be one. Move it away and run again.")
    words = attributes(path.resolve(), uid, gid, mode) if there else ["folder"]
    if not words:
        return None
    if not check and uid is not None and gid is not None:
        if not there:
            make_parents(path)
            path.mkdir(mode=0o700)
        own(path.resolve(), uid, gid, mode)
    return difference(item["path"], "", ", ".join(words) + "\n")


def apply_file(item: dict[str, Any], check: bool) -> dict[str, str] | None:
    """A file with its text, owner and mode."""
    path, text = Path(item["path"]), item["content"]
    if text is None:
        raise RefusalError(
            f"{path}: one of content, template, source, link, directory and absent has to be given."
        )
    uid, gid, mode = number_of(item, "owner", check), number_of(item, "group", check), mode_of(item)
    if path.is_dir():
        raise RefusalError(f"{path} is a folder and should be a file. Move it away and run again.")
    old = read(path)
    same = old == text and not path.is_symlink()
    words = attributes(path, uid, gid, mode) if same else []
    if same and not words:
        return None
    if not same and item["validate"]:
        validate(item["validate"], text, path, mode, check)
    if not check and uid is not None and gid is not None:
        if same:
            own(path, uid, gid, mode)
        else:
            write(path, text, uid, gid, mode)
    if item["secret"] and not same:
        return difference(item["path"], "(secret)\n" if old is not None else "", "(new secret)\n")
    return difference(item["path"], old or "", text if not words else f"{text}\n({', '.join(words)})\n")


def apply(item: dict[str, Any], check: bool) -> dict[str, str] | None:
    """Apply one item; its diff, or None if nothing changed."""
    if item["absent"]:
        return apply_absent(item, check)
    if not item["overwrite"] and os.path.lexists(item["path"]):
        return None
    if item["link"]:
        return apply_link(item, check)
    if item["directory"]:
        return apply_directory(item, check)
    return apply_file(item, check)


def work(params: dict[str, Any], check: bool, progress: dict[str, Any]) -> dict[str, Any]:
    """Apply all items; the result for Ansible. `progress` has the changes so far."""
    diffs: list[dict[str, str]] = []
    try:
        for item in params["files"]:
            entry = apply(item, check)
            if entry is not None:
                progress["changed"] = True
                progress["changed_files"].append(item["path"])
                diffs.append(entry)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise RefusalError(
            f"The disk is full: {error}. The old file is as it was; make room and run again."
        ) from error
    return progress | {"diff": diffs if params["diff"] else []}


def main() -> None:
    """Entry point."""
    item = {
        "path": {"type": "path", "required": True},
        "content": {"type": "str"},
        "template": {"type": "str"},
        "source": {"type": "str"},
        "shared": {"type": "str"},
        "link": {"type": "str"},
        "directory": {"type": "bool", "default": False},
        "absent": {"type": "bool", "default": False},
        "owner": {"type": "str", "default": "root"},
        "group": {"type": "str", "default": "root"},
        "mode": {"type": "str"},
        "overwrite": {"type": "bool", "default": True},
        "validate": {"type": "str"},
        "secret": {"type": "bool", "default": False},
        "when": {"type": "bool", "default": True},
    }
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "required": True, "options": item, "no_log": False},
            "diff": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    # Without arguments: they contain the texts of all files.
    progress: dict[str, Any] = {"changed": False, "changed_files": [], "invocation": {}}
    finish(module, lambda: work(module.params, module.check_mode, progress), progress)


if __name__ == "__main__":
    main()
