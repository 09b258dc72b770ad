"""Policy rules over the resources of a Pulumi preview.

The rules are in `policies/rules` of the checkout, one per file. This package has the API for rules (`rule`,
`change`; resources are in `gpufleet.resources`), their configuration (`settings`, `exemptions`), their
evaluation, and the server of Pulumi's Analyzer protocol.
"""
