"""Benchmarks against peers, measured in one run: `make bench`."""
