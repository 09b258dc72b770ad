"""Economics and sizing: how long, how large and how expensive a job is, with every assumption shown.

The calculators are pure functions on the catalog and its prices. Amounts are USD, times are seconds or hours,
data is bytes; results name their unit (`_GB` is 10^9 bytes, `_GiB` 2^30).
"""
