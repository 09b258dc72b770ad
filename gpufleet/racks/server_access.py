"""The way of ssh to servers in the cloud: Session Manager, which needs no open port and no public address."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.racks.variables import LaunchedSite

DOCUMENT = "AWS-StartSSHSession"
"""AWS's session document for ssh (Systems Manager User Guide, "Allow and control permissions for SSH
connections through Session Manager")."""


def server_proxies(sites: Sequence[LaunchedSite]) -> dict[str, dict[str, str]]:
    """The variables by which Ansible reaches servers through Session Manager, by host.

    Only for sites with `access: ssm`. The AWS CLI starts a session to the instance, and needs AWS's Session
    Manager plugin beside it.
    """
    return {
        name: {
            "ansible_ssh_common_args": '-o ProxyCommand="aws ssm start-session'
            f" --region {site.plan.region} --target {instance} --document-name {DOCUMENT}"
            ' --parameters portNumber=%p"'
        }
        for site in sites
        if site.plan.slurm is not None
        and site.plan.slurm.servers is not None
        and site.plan.slurm.servers.access == "ssm"
        for name, instance in (site.servers.get("instances") or {}).items()
    }
