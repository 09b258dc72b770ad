"""The embedded deployment engine: Pulumi programs and providers without the Pulumi CLI.

It implements Pulumi's own gRPC protocol, so programs, providers and states are those of the CLI. It supports
what this project's programs use and rejects everything else with a message.
"""
