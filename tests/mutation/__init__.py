"""Mutation test: weaken protections of the components, and report which rule or test fails."""
