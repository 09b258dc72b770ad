"""The resource handlers, one file for what belongs together; each lists its own in HANDLERS."""
