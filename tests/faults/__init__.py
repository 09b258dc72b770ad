"""Every fault of the emulated AWS at every call of an environment's first `up`, and `up` again.

`world` is a checkout with an emulated account in this process, `sweep` injects the faults.
`python -m tests.faults` (`make faults`) runs all of it, `tests/e2e/test_interrupted_creation.py` a
seeded part.
"""
