"""Faults of a cloud, on request: throttling, no capacity, late visibility, slowness, errors.

The emulated AWS reads them from the file `faults.json` in its folder at each request, so they hold at
once and for every client; `gpufleet sandbox faults` writes it. `plan` is what the file says, `inject`
what a server does about it, `buckets` what AWS publishes about throttling.
"""
