"""The stack program and what it consists of."""
