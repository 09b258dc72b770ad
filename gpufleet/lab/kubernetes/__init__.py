"""The `kubernetes` Pulumi provider of the sandbox: objects on an API server of this machine, or in files.

`python -m gpufleet.lab.kubernetes` serves it; the Pulumi CLI uses the plugin executable in
gpufleet/lab/plugin. If GPUFLEET_KUBECONFIG or the provider's kubeconfig has an API server on loopback,
objects are applied to it; otherwise they are rendered to a folder. It never connects to a cluster elsewhere:
that needs the real provider plugin.
"""

VERSION = "4.34.2"
