"""What one verdict has for itself: a folder of its files, and an emulated AWS where it previews in one."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.lab_extra import start_throwaway_account

if TYPE_CHECKING:
    from gpufleet.lab_extra import ThrowawayAccount


class Scratch:
    """The folder of one verdict, and its account. A preview in a real account never asks for the latter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.passphrase = ""
        """Of the account, where its files lie in the folder already."""

    @cached_property
    def account(self) -> ThrowawayAccount:
        """An emulated account, which starts while the caller does something else. It is empty, unless
        files of one lie in the folder.

        Raises InputError where the extra `lab` is not installed.
        """
        return start_throwaway_account(self.folder, self.passphrase)

    def end(self) -> None:
        """Stop the emulated AWS, if there is one."""
        if "account" in vars(self):
            self.account.end()


@contextlib.contextmanager
def scratch() -> Iterator[Scratch]:
    """A folder that is gone at the end, as is the account."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-verdict-", ignore_cleanup_errors=True) as name:
        made = Scratch(Path(name).resolve())
        try:
            yield made
        finally:
            made.end()
