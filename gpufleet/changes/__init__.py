"""The effect of changing each field of the fleet file: in place, rolling or replacement, and who is affected.

`table` declares it, `fields` lists every field, so that none is missing, `observe` reads the effect from the
steps of a run (the tests run every change through the engine), and `guard` refuses to delete storage or
reservations without approval. docs/reference/changes.md is generated from the table.
"""
