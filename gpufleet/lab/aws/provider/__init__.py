"""The `aws` Pulumi provider of the sandbox: pulumi_aws' types as boto3 calls to the emulated AWS.

Served by `python -m gpufleet.lab.aws.provider`, and to the Pulumi CLI by the plugin executable in
gpufleet/lab/plugin. It talks to loopback only; a real account uses the real provider plugin.
"""

VERSION = "7.51.1"
