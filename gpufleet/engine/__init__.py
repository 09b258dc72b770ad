"""Deployment engines behind one interface: the Pulumi CLI, and an embedded one for trials and tests."""
