"""The way of ssh to servers in the cloud: Session Manager, which needs no open port and no public address."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.racks.variables import LaunchedSite

DOCUMENT = "AWS-StartSSHSession"
"""AWS's session document for ssh (Systems Manager User Guide, "Allow and control permissions for SSH
connections through Session Manager")."""

_VARIABLES = ("ansible_ssh_extra_args", "ansible_sftp_extra_args", "ansible_scp_extra_args")
"""Not the common arguments: those of a run say where host keys are, and a variable would replace them."""


def server_proxies(sites: Sequence[LaunchedSite]) -> dict[str, dict[str, str]]:
    """The variables by which Ansible reaches servers through Session Manager, by host.

    Only for sites with `access: ssm`. The AWS CLI starts a session to the instance, and needs AWS's Session
    Manager plugin beside it.
    """
    return {
        name: session_variables(site.plan.region, instance)
        for site in sites
        if site.plan.slurm is not None
        and site.plan.slurm.servers is not None
        and site.plan.slurm.servers.access == "ssm"
        for name, instance in (site.servers.get("instances") or {}).items()
    }


def session_variables(region: str, instance: str) -> dict[str, str]:
    """Return the variables by which Ansible reaches an instance through Session Manager."""
    session = (
        f"aws ssm start-session --region {region} --target {instance} --document-name {DOCUMENT}"
        " --parameters portNumber=%p"
    )
    return dict.fromkeys(_VARIABLES, f'-o ProxyCommand="{session}"')
