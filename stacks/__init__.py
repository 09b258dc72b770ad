"""The stack program and its parts."""
