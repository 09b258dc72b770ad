"""What an IAM action does by the form of its name: for the thousands of actions that no list has.

AWS names an action by a verb and an object. Sources: AWS's Service Authorization Reference, with its access
levels "Write" and "Permissions management"; FSBP KMS.1 (no policy decrypts with all keys). All names are in
lower case.
"""

from __future__ import annotations

import re

_OF_IDENTITIES = frozenset(
    {"iam", "organizations", "sso", "sso-directory", "identitystore", "rolesanywhere", "account", "ram"}
)
"""Services whose resources are identities and their rights: what writes there gives rights."""

_READS = re.compile(r"(check|describe|generate|get|list|preview|search|simulate|test|validate|view)")

_GIVES_NOTHING = frozenset(
    {
        "iam:passrole",
        "iam:createservicelinkedrole",
        *(f"iam:create{each}" for each in ("role", "user", "group", "policy", "instanceprofile")),
        *("iam:taginstanceprofile", "iam:tagpolicy", "iam:addroletoinstanceprofile"),
    }
)
"""A new identity or policy has no rights until it is attached; passing a role is judged by what it starts."""

_POLICIES = re.compile(
    r"(add|associate|attach|create|delete|detach|put|remove|replace|set|update)\w*"
    r"(polic(y|ies)|permissions?|permissionsets?|acl|publicaccessblock)"
)
_NOT_OF_ACCESS = re.compile(
    r"\w*(autoscaling|backup|cache|continuousdeployment|dataprotection|delivery|firewall|headers|index|lifecycle"
    r"|loadbalancer|notification|originrequest|password|patch|query|replication|retention|scaling|schedule"
    r"|security|stack|tracing|(network|web)acl)(polic\w+)?"
)
_OTHER_POLICIES = frozenset(
    {"application-autoscaling", "autoscaling", "dlm", "elasticloadbalancing", "fms", "mediapackage", "xray"}
)
"""Services whose policies are about scaling, copies or traffic, and not about access."""

_DESTROYS = re.compile(
    r"(batch(delete|remove|stop|terminate)|bypass|cancel|close|delete|deregister|destroy|detach|disable"
    r"|disassociate|drop|evict|forcedelete|leave|purge|reboot|release|remove|reset|retire|revoke"
    r"|schedule\w*deletion|stop|suspend|terminate|untag)"
)
_OF_CONTROLLERS = frozenset(
    {
        *("ec2:detachvolume", "ec2:detachnetworkinterface", "ec2:deletenetworkinterface"),
        *("ec2:revokesecuritygroupingress", "ec2:revokesecuritygroupegress"),
        *("elasticloadbalancing:deletelistener", "elasticloadbalancing:deleterule"),
        *("elasticloadbalancing:deregistertargets", "elasticloadbalancing:removelistenercertificates"),
        *("wafv2:disassociatewebacl", "waf-regional:disassociatewebacl", "shield:deleteprotection"),
        *("ssm:terminatesession", "logs:stopquery", "athena:stopqueryexecution"),
    }
)
"""Needed on all resources by the VPC CNI, the EBS driver and the load balancer controller, as their projects
publish their policies (August 2026), and the ends of a caller's own sessions and queries."""

_BUYS = re.compile(
    r"[a-z0-9-]+:purchase\w+|savingsplans:createsavingsplan|shield:createsubscription"
    r"|route53domains:(register|transfer)domain|aws-marketplace:(subscribe|acceptagreementrequest)"
)


def reads_only(action: str) -> bool:
    """Return whether an action, or a pattern of actions, reads by its name."""
    return _READS.match(action.partition(":")[2]) is not None


def gives_rights(action: str) -> bool:
    """Return whether an action writes identities, or policies on who may use a resource."""
    service, _, name = action.partition(":")
    if service in _OF_IDENTITIES:
        return action not in _GIVES_NOTHING and not reads_only(action)
    return (
        service not in _OTHER_POLICIES
        and _POLICIES.fullmatch(name) is not None
        and _NOT_OF_ACCESS.fullmatch(name) is None
    )


def destroys(action: str) -> bool:
    """Return whether an action deletes, stops or takes away what exists."""
    return action not in _OF_CONTROLLERS and _DESTROYS.match(action.partition(":")[2]) is not None


def buys(action: str) -> bool:
    """Return whether an action commits to a payment that nobody can cancel."""
    return _BUYS.fullmatch(action) is not None
