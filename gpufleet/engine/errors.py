"""The engines' own errors, each with a remedy."""

from __future__ import annotations

from gpufleet.errors import CloudError, ExitCode, GpufleetError, InputError

# https://www.pulumi.com/docs/install/, for Linux. On macOS it is the Homebrew formula pulumi/tap/pulumi.
INSTALL_PULUMI = "curl -fsSL https://get.pulumi.com | sh"
"""The command that installs the Pulumi CLI."""


class CliMissingError(InputError):
    """A run needs the Pulumi CLI, which is not on PATH."""

    def __init__(self, what: str = "the Pulumi CLI is not on PATH") -> None:
        super().__init__(
            what,
            remedy=f"install it and open a new shell: {INSTALL_PULUMI} (other ways: "
            "https://www.pulumi.com/docs/install/), or try without an account: --cloud sandbox",
        )


class UnsupportedError(InputError):
    """The program uses a feature that only the Pulumi CLI supports."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: the embedded engine does not support that, it needs the Pulumi CLI",
            remedy=f"install the Pulumi CLI ({INSTALL_PULUMI}) and add --engine pulumi",
        )


class StateLockedError(CloudError):
    """Another run holds the state; the message identifies it."""


class StateError(CloudError):
    """The state cannot be read or written; it is unchanged."""


class PassphraseError(InputError):
    """The state's secrets cannot be decrypted with the current passphrase."""


class PluginError(InputError):
    """A provider plugin or a policy pack is missing or does not start."""


class PolicyPackFailedError(GpufleetError):
    """A running policy pack stopped or returned an error: nothing was checked, so nothing passes."""


class ProviderError(GpufleetError):
    """A provider rejected or failed an operation; the message is the provider's own."""

    exit_code = ExitCode.CLOUD_FAILURE


class RunInterruptedError(GpufleetError):
    """The run was interrupted before this step began."""

    exit_code = ExitCode.INTERRUPTED


class StepFailedError(GpufleetError):
    """One resource cannot continue (its message is shown with it); the others may."""

    exit_code = ExitCode.CLOUD_FAILURE
