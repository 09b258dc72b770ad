"""A stack's resources for rules and prices: plain values, references, and what launches instances."""
