"""The `kubernetes` Pulumi provider of the sandbox: objects on an API server of this machine, or files.

Served by `python -m gpufleet.lab.kubernetes`, and to the Pulumi CLI by the plugin executable in
gpufleet/lab/plugin. Where GPUFLEET_KUBECONFIG or the provider's kubeconfig names an API server
on loopback, objects are applied to it; otherwise they are rendered to a folder. It never reaches
a cluster elsewhere: a real one uses the real provider plugin.
"""

VERSION = "4.34.2"
