"""What stops a module or a program of ours: a text that a person can act on. It needs no Ansible."""

from __future__ import annotations


class RefusalError(Exception):
    """What is wrong, the rule and the remedy, in one text."""
