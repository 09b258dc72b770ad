"""The `aws` Pulumi provider of the sandbox: pulumi_aws' types as boto3 calls to the emulated AWS.

`python -m gpufleet.lab.aws.provider` serves it; the Pulumi CLI uses the plugin executable in
gpufleet/lab/plugin. It connects to loopback only; a real account uses the real provider plugin.
"""

VERSION = "7.51.1"
