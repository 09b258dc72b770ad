"""Errors that stop a module or host program, with a remedy. It needs no Ansible."""

from __future__ import annotations


class RefusalError(Exception):
    """Value, rule and remedy in one text."""
