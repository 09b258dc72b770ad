"""Pulumi components of the cloud half: each works on its own in anybody's Pulumi program."""
