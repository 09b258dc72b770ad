"""Pulumi components of the cloud half: each works in any Pulumi program."""
