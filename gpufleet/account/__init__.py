"""Preflight of an AWS account: what a fleet needs of it, and what it lacks. Only reading calls."""
