"""Policy rules over the resources of a Pulumi preview: what a rule is, what it sees, who judges.

The rules themselves are the checkout's own and lie in `policies/rules`, one a file. This package
holds what they are written with (`rule`, `change`; resources are in `gpufleet.resources`), what a project
says of them (`settings`, `exemptions`), the judge, and the server that speaks Pulumi's Analyzer protocol.
"""
