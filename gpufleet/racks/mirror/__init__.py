"""Mirrors for sites without a way to the internet: what they need, packing it, and what they lack.

A site asks `image_mirror` for every image under its own name without the registry's host (containerd,
docs/hosts.md, "_default"), and `package_mirror` for charts below `charts/`.
"""
