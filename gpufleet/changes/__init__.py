"""What a change of each field of the fleet file does: in place, rolling or replacement, and who notices.

`table` says it, `fields` makes sure that no field is left out, `observe` reads it off the steps of a
real run (the tests run every change through the engine), and `guard` keeps storage and reservations
from going without somebody's word. docs/reference/changes.md is written from the table.
"""
