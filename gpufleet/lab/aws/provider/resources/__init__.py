"""The resource handlers, one file per topic; each lists its own in HANDLERS."""
