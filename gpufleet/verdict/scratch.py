"""Temporary resources of one verdict: a folder, and an emulated AWS unless the preview is real."""

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
    """The folder and emulated account of one verdict. A preview in a real account does not start the
    latter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.passphrase = ""
        """The settings of the account, if its files already exist in the folder."""
        self.creates = False
        """Whether a base may be created in the account."""

    @cached_property
    def account(self) -> ThrowawayAccount:
        """The emulated account, which starts in the background. It is empty unless the folder has files of
        one.

        Raises InputError if the extra `lab` is not installed.
        """
        return start_throwaway_account(self.folder, self.passphrase, creates=self.creates)

    def end(self) -> None:
        """Stop the emulated AWS if it runs."""
        if "account" in vars(self):
            self.account.end()


@contextlib.contextmanager
def scratch() -> Iterator[Scratch]:
    """Yield a scratch whose folder and account are deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-verdict-", ignore_cleanup_errors=True) as name:
        made = Scratch(Path(name).resolve())
        try:
            yield made
        finally:
            made.end()
