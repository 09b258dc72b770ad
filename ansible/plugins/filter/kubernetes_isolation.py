"""Isolation of the teams of a Kubernetes site: network policies, and pods on the network of their host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Object = dict[str, Any]

HOST_NETWORK_LABEL = "gpufleet.io/host-network"
"""On namespaces of teams whose pods may use the network of their host."""

SHARED_LABEL = "gpufleet.io/shared"
"""With the value "true" on namespaces of services, such as a registry of models, that all teams use."""

ENFORCE_LABEL = "pod-security.kubernetes.io/enforce"

CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    "IPC_LOCK",
)
"""Those of the level `baseline` (Kubernetes documentation, Pod Security Standards), and IPC_LOCK, since RDMA
registers memory that stays in place."""

_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
# For a container `c`, and what it must not have otherwise.
_CONTAINER_RULES = {
    "privileged containers": "!c.?securityContext.?privileged.orValue(false)",
    "capabilities other than " + ", ".join(CAPABILITIES): (
        "c.?securityContext.?capabilities.?add.orValue([]).all(one, one in variables.capabilities)"
    ),
    "an unmasked /proc": "c.?securityContext.?procMount.orValue('Default') == 'Default'",
    "Unconfined as seccomp profile of a container": (
        "c.?securityContext.?seccompProfile.?type.orValue('') != 'Unconfined'"
    ),
    "Unconfined as AppArmor profile of a container": (
        "c.?securityContext.?appArmorProfile.?type.orValue('') != 'Unconfined'"
    ),
    "SELinux options of a container": "!c.?securityContext.?seLinuxOptions.hasValue()",
}
_POD_RULES = {
    "hostPID and hostIPC": "!object.spec.?hostPID.orValue(false) && !object.spec.?hostIPC.orValue(false)",
    "hostPath volumes": "object.spec.?volumes.orValue([]).all(one, !has(one.hostPath))",
    "Unconfined as seccomp profile": (
        "object.spec.?securityContext.?seccompProfile.?type.orValue('') != 'Unconfined'"
    ),
    "Unconfined as AppArmor profile": (
        "object.spec.?securityContext.?appArmorProfile.?type.orValue('') != 'Unconfined' && "
        "object.metadata.?annotations.orValue({}).all(key, "
        f"!key.startsWith('{_APP_ARMOR}') || object.metadata.annotations[key] != 'unconfined')"
    ),
    "SELinux options": "!object.spec.?securityContext.?seLinuxOptions.hasValue()",
    "sysctls": "object.spec.?securityContext.?sysctls.orValue([]).size() == 0",
}


def isolation_of(team: Mapping[str, Any], pod_security: str) -> dict[str, str]:
    """Labels of a team's namespace: the level of its pods, and whether they may use the host's network.

    Only the level `privileged` allows that; `host_network_policy` refuses the rest of it.
    """
    if not team.get("host_network"):
        return {ENFORCE_LABEL: pod_security}
    return {ENFORCE_LABEL: "privileged", HOST_NETWORK_LABEL: "true"}


def service_account(namespace: str) -> Object:
    """The default account of a namespace: its pods get no token of the API unless they ask for one."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": namespace},
        "automountServiceAccountToken": False,
    }


def network_policy(team: Mapping[str, Any], network: Mapping[str, Any]) -> Object:
    """A policy for all pods of a team: traffic inside its namespace, with shared services and the outside.

    `network` has `pod_network`, `hosts` (networks of the fleet's hosts and their management controllers,
    which pods do not reach), `api` (networks of the API server) and `port`. A team on the network of its
    hosts reaches their addresses, since its pods have them.
    """
    near = [
        {"podSelector": {}},
        {"namespaceSelector": {"matchLabels": {SHARED_LABEL: "true"}}},
    ]
    names = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    closed = [network["pod_network"], *([] if team.get("host_network") else network["hosts"])]
    egress: list[Object] = [
        {"to": near},
        {"to": [names], "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]},
        {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": closed}}]},
    ]
    if network["api"]:
        api = [{"ipBlock": {"cidr": cidr}} for cidr in network["api"]]
        egress.append({"to": api, "ports": [{"protocol": "TCP", "port": network["port"]}]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "team", "namespace": team["name"]},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": near}],
            "egress": egress,
        },
    }


def host_network_policy(_site: Any = None) -> list[Object]:
    """Refuse, in namespaces of teams with the host's network, all else that the level `baseline` refuses."""
    name = "gpufleet-host-network"
    api = "admissionregistration.k8s.io/v1"
    kinds = ("containers", "initContainers", "ephemeralContainers")
    rules = _POD_RULES | {
        what: " && ".join(f"object.spec.?{kind}.orValue([]).all(c, {rule})" for kind in kinds)
        for what, rule in _CONTAINER_RULES.items()
    }
    return [
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {HOST_NETWORK_LABEL: "true"}},
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["pods", "pods/ephemeralcontainers"],
                        }
                    ],
                },
                "variables": [
                    {
                        "name": "capabilities",
                        "expression": "[" + ", ".join(f"'{one}'" for one in CAPABILITIES) + "]",
                    }
                ],
                "validations": [
                    {
                        "expression": rule,
                        "message": f"this team's pods may use the network of their host, but not {what}",
                    }
                    for what, rule in rules.items()
                ],
            },
        },
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"kubernetes_host_network_policy": host_network_policy}
