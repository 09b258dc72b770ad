"""Stand-ins for the real world: an emulated AWS, a Kubernetes API and a rack in a box, with their faults.

An optional extra (`pip install 'gpufleet[lab]'`), which real accounts and real racks do not import.
"""
