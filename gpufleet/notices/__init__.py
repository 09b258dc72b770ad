"""The handler of AWS's notices about nodes: drains them, lets jobs write checkpoints, and requeues these."""
