"""Injected faults of a cloud: throttling, missing capacity, late visibility, slowness, errors.

The emulated AWS reads them from the file `faults.json` in its folder at each request, so they apply at once
and to every client; `gpufleet sandbox faults` writes it. `plan` is the format of the file, `inject` applies
it in a server, `buckets` has AWS's published throttling limits.
"""
