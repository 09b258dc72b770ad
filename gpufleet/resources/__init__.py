"""A stack's resources as rules and prices see them: plain values, references, and what launches instances."""
