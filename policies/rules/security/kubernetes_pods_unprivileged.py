"""Pods have no access to their host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from posixpath import normpath
from typing import Any

from pydantic import Field

from gpufleet.catalog.eks_registries import REGISTRY_ACCOUNTS
from gpufleet.policies.rules.security._kubernetes import (
    CONTAINERS,
    HOST_FLAGS,
    kind_of,
    namespace_of,
    pod_specs,
)
from gpufleet.policies.rules.security._patterns import matches
from gpufleet.policies.rules.security._properties import is_off
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Framework, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource, is_unknown

_EFA_PLUGIN = tuple(
    f"{account}.dkr.ecr.*.amazonaws.com{end}/eks/aws-efa-k8s-device-plugin"
    for account in sorted(set(REGISTRY_ACCOUNTS.values()))
    for end in ("", ".cn")
)
_DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
_NAMESPACE = "kube-system"


class KubernetesPodsUnprivilegedSettings(Settings):
    """Capabilities of pods, and reviewed images with access to certain paths of their host."""

    capabilities: tuple[str, ...] = Field(
        (
            "AUDIT_WRITE",
            "CHOWN",
            "DAC_OVERRIDE",
            "FOWNER",
            "FSETID",
            "IPC_LOCK",
            "KILL",
            "MKNOD",
            "NET_BIND_SERVICE",
            "SETFCAP",
            "SETGID",
            "SETPCAP",
            "SETUID",
            "SYS_CHROOT",
        ),
        description="Capabilities that containers may add: those of the baseline profile, and IPC_LOCK, with "
        "which RDMA registers memory",
    )
    images: tuple[str, ...] = Field(
        ("nvcr.io/nvidia/k8s-device-plugin", *_EFA_PLUGIN),
        description="Images of device plugins, without tag: in `kube-system` and with their own command, "
        "their pods may use `host_paths` and the network of the host; `*` matches any text",
    )
    host_paths: tuple[str, ...] = Field(
        ("/var/lib/kubelet/device-plugins", "/dev/infiniband", "/opt/aws/neuron"),
        description="Paths for these images",
    )
    privileged_images: tuple[str, ...] = Field(
        _EFA_PLUGIN,
        description="Those of them that may be privileged: AWS's EFA plugin reads Neuron devices",
    )
    image_paths: dict[str, tuple[str, ...]] = Field(
        {
            "public.ecr.aws/neuron/neuron-device-plugin": (
                "/var/lib/kubelet/device-plugins",
                "/run",
                "/opt/aws",
            )
        },
        description="Images of further device plugins, without tag, each with the only paths for it: in "
        "`kube-system` and with their own command, and not in the network of the host",
    )


@resource_rule(
    "kubernetes-pods-unprivileged",
    group="security",
    title="Pods have no access to their host",
    why="A privileged pod, or one with a path, process table or network of its host, takes over the node, "
    "its role and the data of all other pods there. Pods of jobs and custom resources count too. The limit "
    "is Kubernetes's baseline profile, as for the teams' namespaces.",
    fix="Remove the privilege. GPUs and EFA devices come from device plugins and need none.",
    severity="high",
    framework=Framework(
        "Kubernetes Pod Security Standards",
        "Baseline",
        "https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline",
    ),
    types=(),
    settings=KubernetesPodsUnprivilegedSettings,
    passes=Example(
        (
            {
                "type": "kubernetes:core/v1:Pod",
                "props": {
                    "spec": {"containers": [{"name": "train", "securityContext": {"privileged": False}}]}
                },
            },
        )
    ),
    fails=Example(
        (
            {
                "type": "kubernetes:core/v1:Pod",
                "props": {
                    "spec": {"containers": [{"name": "train", "securityContext": {"privileged": True}}]}
                },
            },
        )
    ),
)
def kubernetes_pods_unprivileged(
    resource: Resource, context: RuleContext[KubernetesPodsUnprivilegedSettings]
) -> Iterator[Violation]:
    """Check pods in objects of every kind, and volumes with a path of the host."""
    kind = kind_of(resource)
    if not kind:
        return
    for spec in pod_specs(resource):
        reviewed = _reviewed(resource, spec, context.settings.images)
        paths = context.settings.host_paths if reviewed else _own_paths(resource, spec, context.settings)
        yield from _host(resource, spec, context.settings, network=reviewed, paths=paths)
        privileged = reviewed and _reviewed(resource, spec, context.settings.privileged_images)
        for containers in CONTAINERS:
            for path, container in resource.items(f"{spec}.{containers}"):
                if is_unknown(container):
                    yield _violation(resource, path, "pods must have no access to their host")
                else:
                    yield from _container(resource, path, context.settings, privileged=privileged)
    for path, value in _annotations(resource.props, ""):
        if not str(value).strip().lower().startswith(("runtime/default", "localhost/")):
            yield _violation(resource, path, "containers must stay confined")
    if kind == "PersistentVolume":
        for path in ("spec.hostPath", "spec.local"):
            mounted = normpath(str(resource.get(f"{path}.path", "")))
            if resource.get(path) is not None and not (
                path.endswith("local") and mounted.startswith("/mnt/")
            ):
                yield _violation(resource, path, "a volume must not be a path of its host outside /mnt")


def _own_paths(
    resource: Resource, spec: str, settings: KubernetesPodsUnprivilegedSettings
) -> tuple[str, ...]:
    """Return the paths of the device plugin whose image all containers have."""
    for image, paths in settings.image_paths.items():
        if _reviewed(resource, spec, (image,)):
            return paths
    return ()


def _reviewed(resource: Resource, spec: str, images: Sequence[str]) -> bool:
    """Return whether it is a device plugin: reviewed images only, as they are, in the cluster's namespace."""
    containers = [path for name in CONTAINERS for path, _ in resource.items(f"{spec}.{name}")]
    return (
        resource.type == _DAEMON_SET
        and namespace_of(resource) == _NAMESPACE
        and bool(containers)
        and all(_as_it_is(resource, path, images) for path in containers)
    )


def _as_it_is(resource: Resource, path: str, images: Sequence[str]) -> bool:
    image = str(resource.get(f"{path}.image", "")).partition("@")[0]
    head, colon, tag = image.rpartition(":")
    name = head if colon and "/" not in tag else image
    own = all(resource.get(f"{path}.{prop}") is None for prop in _OWN_CODE)
    loads = any(
        str(resource.get(f"{each}.name")).startswith("LD_") for each, _ in resource.items(f"{path}.env")
    )
    return own and not loads and any(matches(each, name) for each in images)


def _host(
    resource: Resource,
    spec: str,
    settings: KubernetesPodsUnprivilegedSettings,
    *,
    network: bool,
    paths: Sequence[str],
) -> Iterator[Violation]:
    """Check what pods take of their host; `network` and `paths` are allowed."""
    for prop in HOST_FLAGS:
        value = resource.get(f"{spec}.{prop}")
        if value is not None and not is_off(value) and not (network and prop == "hostNetwork"):
            yield _violation(resource, f"{spec}.{prop}", "pods must not be in the namespaces of their host")
    for path, _ in resource.items(f"{spec}.volumes"):
        mounted = resource.get(f"{path}.hostPath.path")
        if resource.get(f"{path}.hostPath") is not None and not (
            isinstance(mounted, str) and mounted.rstrip("/") in paths
        ):
            yield _violation(resource, f"{path}.hostPath", "pods must not mount paths of their host")
    yield from _context(resource, f"{spec}.securityContext", settings)


def _container(
    resource: Resource, path: str, settings: KubernetesPodsUnprivilegedSettings, *, privileged: bool
) -> Iterator[Violation]:
    yield from _context(resource, f"{path}.securityContext", settings, privileged=privileged)
    for port, _ in resource.items(f"{path}.ports"):
        host = resource.get(f"{port}.hostPort")
        if host is not None and host != 0:
            yield _violation(resource, f"{port}.hostPort", "pods must not listen on ports of their host")
    for probe in (*_PROBES, "lifecycle.postStart", "lifecycle.preStop"):
        for way in ("httpGet", "tcpSocket"):
            if resource.get(f"{path}.{probe}.{way}.host") not in (None, ""):
                yield _violation(resource, f"{path}.{probe}.{way}.host", "probes must stay in their pod")


def _context(
    resource: Resource,
    path: str,
    settings: KubernetesPodsUnprivilegedSettings,
    *,
    privileged: bool = False,
) -> Iterator[Violation]:
    """Check a security context of a pod, or of a container, which may be `privileged`."""
    for prop, rule in (
        ("privileged", "containers must not be privileged"),
        ("windowsOptions.hostProcess", "containers must not be processes of their host"),
    ):
        value = resource.get(f"{path}.{prop}")
        allowed = privileged and prop == "privileged"
        if value is not None and not is_off(value) and not allowed:
            yield _violation(resource, f"{path}.{prop}", rule)
    for prop, good in (
        ("procMount", ("default",)),
        ("seccompProfile.type", ("runtimedefault", "localhost")),
        ("appArmorProfile.type", ("runtimedefault", "localhost")),
        ("seLinuxOptions.type", _SELINUX_TYPES),
        ("seLinuxOptions.user", ("",)),
        ("seLinuxOptions.role", ("",)),
    ):
        value = resource.get(f"{path}.{prop}")
        if value is not None and str(value).strip().lower() not in good:
            yield _violation(resource, f"{path}.{prop}", "containers must stay confined")
    for sysctl, _ in resource.items(f"{path}.sysctls"):
        if str(resource.get(f"{sysctl}.name")).replace("/", ".") not in _SYSCTLS:
            yield _violation(resource, sysctl, "pods must set no such kernel parameter of their host")
    for added, value in resource.items(f"{path}.capabilities.add"):
        if str(value).strip().upper().removeprefix("CAP_") not in settings.capabilities:
            yield _violation(resource, added, "containers must add no such capability")


def _annotations(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield path and value of AppArmor's older annotations, of the object and of its pods."""
    if not isinstance(value, Mapping):
        return
    notes = value.get("annotations")
    for key, each in notes.items() if isinstance(notes, Mapping) else ():
        if str(key).startswith(_APPARMOR):
            yield f"{path}.annotations.{key}".lstrip("."), each
    for key, item in value.items():
        yield from _annotations(item, f"{path}.{key}".lstrip("."))


_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_OWN_CODE = ("command", "args", "lifecycle", *_PROBES)
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_SYSCTLS = frozenset(
    {
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"),
        *("net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
        "net.ipv4.tcp_keepalive_probes",
    }
)
"""Kernel parameters of a pod's own namespaces, and SELinux types: those of the baseline profile."""


def _violation(resource: Resource, path: str, rule: str) -> Violation:
    return Violation(
        f"{path} is {resource.show(path)}, and {rule}",
        "remove it, or add the image to the rule's settings once it is reviewed",
        prop=path,
        unknown=is_unknown(resource.get(path)),
    )
