"""Files of the Kubernetes roles, verified with the programs that read them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.kube.build import MINOR, kubeadm, minors, not_asked, version
from tests.loading import load_source
from tests.rack.lab import fleet_text
from tests.unit.ansible.rendering import DISTRIBUTIONS, SECRETS, RenderedFile, Site, tasks
from tests.unit.ansible.test_rendered_files import PACKAGED, executables, judge

SETTINGS = """\
    addresses: { ctl01: 10.90.0.11, ctl02: 10.90.0.12, ctl03: 10.90.0.13 }
    kubernetes:
      version: "VERSION"
      endpoint: 10.90.0.10
"""
MINORS = minors()
FOLDER = "/etc/kubernetes/gpufleet"
PATCHES = f"{FOLDER}/patches"


def etcd_member() -> ModuleType:
    """What the role's programs know of a member."""
    return load_source(Path("ansible/roles/kubernetes_control_plane/files/etcd_member.py"), "etcd_member")


def fleet(minor: str, *, controllers: int = 3) -> str:
    text = fleet_text(controllers=controllers).replace(
        "scheduler: slurm\n", "scheduler: kubernetes\n" + SETTINGS
    )
    lines = [line for line in text.splitlines(True) if not line.startswith("    slurm:")]
    return "".join(lines).replace("VERSION", minor)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    return {minor: Site(fleet(minor), tmp_path_factory.mktemp(minor)) for minor in MINORS}


def files(
    site: Site, role: str, host: str = "ctl01", system: str = "ubuntu_24_04", **extra: Any
) -> dict[str, RenderedFile]:
    return site.rendered(host, role, system, extra)


def joined(site: Site, role: str, host: str) -> str:
    """The join configuration, which is written only while it is used."""
    from ansible.template import Templar, trust_as_template

    variables = site.variables(host, role, "ubuntu_24_04")
    variables[f"{role}__invitation"] = {
        "token": "abcdef.0123456789abcdef",
        "ca_hash": "sha256:" + "0" * 64,
        "certificate_key": "0" * 64,
    }
    path = Path("ansible/roles") / role / "templates" / "join.yaml.j2"
    templar = Templar(loader=None, variables=variables)
    searching = templar.copy_with_new_env(searchpath=[str(path.parent)], available_variables=variables)
    return str(searching.template(trust_as_template(path.read_text())))


@pytest.mark.xdist_group("kube")
@pytest.mark.parametrize("minor", MINORS)
def test_kubeadm_of_each_minor_accepts_every_configuration(
    sites: dict[str, Site], minor: str, tmp_path: Path
) -> None:
    if why := not_asked("kubeadm", minor):
        pytest.skip(why)
    site = sites[minor]
    written = {
        "begin": files(site, "kubernetes_control_plane")[f"{FOLDER}/kubeadm.yaml"].text,
        "member": joined(site, "kubernetes_control_plane", "ctl02"),
        "node": joined(site, "kubernetes_node", "dgx01"),
    }
    for name, text in written.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        done = validate(minor, path)
        assert done.returncode == 0, done.stdout + done.stderr
        # Any output would be a deprecated field.
        assert "W1" not in done.stderr and "deprecated" not in done.stdout + done.stderr, done.stderr
    broken = tmp_path / "broken.yaml"
    broken.write_text(written["begin"].replace("controlPlaneEndpoint", "controlPlaneEndpiont"))
    assert validate(minor, broken).returncode != 0


def validate(minor: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [kubeadm(minor), "config", "validate", "--config", path],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.xdist_group("kube")
@pytest.mark.parametrize("minor", MINORS)
def test_kubeadm_writes_an_api_server_with_encryption_audit_and_pod_security(
    sites: dict[str, Site], minor: str, tmp_path: Path
) -> None:
    if why := not_asked("kubeadm", minor):
        pytest.skip(why)
    written = files(sites[minor], "kubernetes_control_plane")
    patches = tmp_path / "patches"
    patches.mkdir()
    (patches / "kube-apiserver+json.yaml").write_text(written[f"{PATCHES}/kube-apiserver+json.yaml"].text)
    path = tmp_path / "kubeadm.yaml"
    path.write_text(written[f"{FOLDER}/kubeadm.yaml"].text.replace(PATCHES, str(patches)))
    done = subprocess.run(
        [kubeadm(minor), "init", "phase", "control-plane", "all", "--config", path, "--dry-run"],
        env=os.environ | {"KUBEADM_INIT_DRYRUN_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (manifest,) = tmp_path.rglob("kube-apiserver.yaml")
    (container,) = yaml.safe_load(manifest.read_text())["spec"]["containers"]
    assert {
        f"--encryption-provider-config={FOLDER}/encryption.yaml",
        f"--admission-control-config-file={FOLDER}/admission.yaml",
        f"--audit-policy-file={FOLDER}/audit-policy.yaml",
        "--bind-address=10.90.0.11",
        f"--authentication-config={FOLDER}/authentication.yaml",
        "--enable-admission-plugins=NodeRestriction,DenyServiceExternalIPs",
        "--kubelet-certificate-authority=/etc/kubernetes/pki/ca.crt",
        "--profiling=false",
    } <= set(container["command"])
    assert container["image"].endswith(f"kube-apiserver:v{version(minor)}")
    assert [item["name"] for item in container["env"]] == ["GPUFLEET_POLICIES"]
    assert FOLDER in [item["mountPath"] for item in container["volumeMounts"]]


@pytest.mark.xdist_group("kube")
@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("metrics", [True, False])
def test_controllers_and_etcd_serve_metrics_to_other_hosts_only_with_monitoring(
    sites: dict[str, Site], minor: str, metrics: bool, tmp_path: Path
) -> None:
    if why := not_asked("kubeadm", minor):
        pytest.skip(why)
    written = files(sites[minor], "kubernetes_control_plane", kubernetes_control_plane_metrics=metrics)
    path = tmp_path / "kubeadm.yaml"
    path.write_text(re.sub(r"patches:\n  directory: .*\n", "", written[f"{FOLDER}/kubeadm.yaml"].text))
    made = {}
    for phase, part in (
        ("control-plane controller-manager", "kube-controller-manager"),
        ("control-plane scheduler", "kube-scheduler"),
        ("etcd local", "etcd"),
    ):
        done = subprocess.run(
            [kubeadm(minor), "init", "phase", *phase.split(), "--config", path, "--dry-run"],
            env=os.environ | {"KUBEADM_INIT_DRYRUN_DIR": str(tmp_path / part)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        (manifest,) = (tmp_path / part).rglob(f"{part}.yaml")
        (made[part],) = yaml.safe_load(manifest.read_text())["spec"]["containers"]
    (url,) = (word for word in made["etcd"]["command"] if word.startswith("--listen-metrics-urls="))
    assert url.endswith("http://0.0.0.0:2381" if metrics else "http://127.0.0.1:2381")
    for part in ("kube-controller-manager", "kube-scheduler"):
        container = made[part]
        assert f"--bind-address={'0.0.0.0' if metrics else '127.0.0.1'}" in container["command"]
        mounted = [item["mountPath"] for item in container["volumeMounts"]]
        # Neither reads the key that encrypts secrets.
        assert (f"{FOLDER}/metrics" in mounted) is metrics and FOLDER not in mounted
        assert (f"--tls-cert-file={FOLDER}/metrics/tls.crt" in container["command"]) is metrics
    # A probe of the kubelet reaches each where it listens: without a host at the host's address, and 0.0.0.0
    # is loopback for a client.
    probes = [made[part]["livenessProbe"]["httpGet"].get("host") for part in made]
    assert probes == ([None, None, "0.0.0.0"] if metrics else ["127.0.0.1"] * 3)


@pytest.mark.xdist_group("kube")
def test_kubeadm_uses_existing_authorities_and_writes_an_etcd_manifest_for_restore(
    sites: dict[str, Site], tmp_path: Path
) -> None:
    minor = MINOR
    if why := not_asked("kubeadm", minor):
        pytest.skip(why)
    written = files(sites[minor], "kubernetes_control_plane")
    text = written[f"{FOLDER}/kubeadm.yaml"].text
    config, pki, patches = tmp_path / "kubeadm.yaml", tmp_path / "pki", tmp_path / "patches"
    patches.mkdir()
    (patches / "kube-apiserver+json.yaml").write_text(written[f"{PATCHES}/kube-apiserver+json.yaml"].text)
    text = text.replace(PATCHES, str(patches))
    text = text.replace(
        "kind: ClusterConfiguration\n", f"kind: ClusterConfiguration\ncertificatesDir: {pki}\n"
    )
    config.write_text(text)

    def phase(*words: str) -> None:
        done = subprocess.run(
            [kubeadm(minor), "init", "phase", *words, "--config", config],
            env=os.environ | {"KUBEADM_INIT_DRYRUN_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr

    phase("certs", "all")
    kept = {name: (pki / name).read_bytes() for name in etcd_member().AUTHORITIES}
    for path in [
        path for path in pki.rglob("*") if path.is_file() and str(path.relative_to(pki)) not in kept
    ]:
        path.unlink()
    phase("certs", "all")
    assert {name: (pki / name).read_bytes() for name in kept} == kept
    assert (pki / "apiserver.crt").is_file() and (pki / "etcd" / "server.crt").is_file()

    phase("etcd", "local", "--dry-run")
    phase("control-plane", "all", "--dry-run")
    (manifest,) = tmp_path.rglob("etcd.yaml")
    kubernetes = tmp_path / "kubernetes"
    kubernetes.mkdir()
    (kubernetes / "manifests").symlink_to(manifest.parent)
    found = etcd_member().Member(kubernetes)
    assert found.flag("name") == "ctl01" and found.flag("data-dir") == "/var/lib/etcd"
    assert found.flag("initial-advertise-peer-urls") == "https://10.90.0.11:2380"
    assert found.flag("listen-client-urls").startswith("https://127.0.0.1:2379,")
    assert found.flag("trusted-ca-file") == f"{pki}/etcd/ca.crt"
    assert found.flag("bind-address", "kube-apiserver") == "10.90.0.11"
    assert found.flag("secure-port", "kube-apiserver") == "6443"
    assert etcd_member().release_of_api(kubernetes) == version(minor)


WORDS = {
    "init": ["--skip-token-print", "--config"],
    "init phase control-plane all": ["--config"],
    "init phase upload-config all": ["--config"],
    "init phase upload-certs": ["--upload-certs", "--config"],
    "join": ["--config"],
    "reset": ["--force"],
    "token create": ["--config", "--kubeconfig"],
    "upgrade apply": ["--yes", "--patches"],
    "upgrade node": ["--patches"],
    "upgrade node phase kubelet-config": ["--patches"],
    "certs check-expiration": ["--output"],
    "certs renew all": [],
}


@pytest.mark.xdist_group("kube")
@pytest.mark.parametrize("minor", MINORS)
def test_kubeadm_of_each_minor_supports_the_commands_that_modules_run(minor: str) -> None:
    if why := not_asked("kubeadm", minor):
        pytest.skip(why)
    for command, flags in WORDS.items():
        words = [kubeadm(minor), *command.split(), "--help"]
        reported = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300).stdout
        assert f"kubeadm {command} [" in reported, command
        assert [flag for flag in flags if flag not in reported] == [], command


def test_channel_installs_the_kubeadm_releases_under_test(sites: dict[str, Site]) -> None:
    from gpufleet.catalog import load_catalog

    for lock in load_catalog().locks.values():
        assert lock.kubernetes_releases == {minor: version(minor) for minor in MINORS}


def test_digest_of_policies_changes_with_them(sites: dict[str, Site]) -> None:
    def digest(**extra: Any) -> str:
        text = files(sites["1.35"], "kubernetes_control_plane", **extra)[f"{FOLDER}/kubeadm.yaml"].text
        cluster = next(part for part in yaml.safe_load_all(text) if part["kind"] == "ClusterConfiguration")
        return str(cluster["apiServer"]["extraEnvs"][0]["value"])

    assert digest() == digest()
    assert digest() != digest(kubernetes_control_plane_pod_security="restricted")
    assert len(digest()) == 64


@pytest.mark.parametrize("system", DISTRIBUTIONS)
def test_haproxy_and_keepalived_accept_their_configuration(
    sites: dict[str, Site], system: str, tmp_path: Path
) -> None:
    interface = next(path.name for path in sorted(Path("/sys/class/net").iterdir()) if path.name != "lo")
    for host in ("ctl01", "ctl03"):
        found = files(sites["1.35"], "kubernetes_endpoint", host, system)
        proxy = tmp_path / f"{host}.cfg"
        text = found["/etc/haproxy/haproxy.cfg"].text
        assert all(f"server ctl0{n} 10.90.0.1{n}:6443" in text for n in (1, 2, 3))
        # Its own account may not be here.
        proxy.write_text(text.replace("user haproxy", "user root").replace("group haproxy", "group root"))
        judge("haproxy", "-c", "-f", proxy)
        alive = tmp_path / "alive"
        alive.write_text(found["/usr/lib/gpufleet/endpoint-alive"].text)
        alive.chmod(0o755)
        config = tmp_path / f"{host}.conf"
        text = found["/etc/keepalived/keepalived.conf"].text
        peers = {f"10.90.0.1{n}" for n in (1, 2, 3)} - {f"10.90.0.1{host[-1]}"}
        assert peers < set(text.split()) and f"unicast_src_ip 10.90.0.1{host[-1]}" in text
        config.write_text(
            text.replace("/usr/lib/gpufleet/endpoint-alive", str(alive)).replace("eth0", interface)
        )
        judge("keepalived", "-t", "-f", config)


def test_first_member_has_the_highest_priority_and_none_preempts(
    sites: dict[str, Site],
) -> None:
    def config(host: str) -> str:
        return files(sites["1.35"], "kubernetes_endpoint", host)["/etc/keepalived/keepalived.conf"].text

    priorities = [
        int(line.split()[1])
        for host in ("ctl01", "ctl02", "ctl03")
        for line in config(host).splitlines()
        if line.split()[:1] == ["priority"]
    ]
    assert priorities == sorted(priorities, reverse=True) and len(set(priorities)) == 3
    for host in ("ctl01", "ctl03"):
        assert "nopreempt" in config(host)
        assert "weight" not in [line.split()[0] for line in config(host).splitlines() if line.strip()]


def test_systemd_accepts_the_units(sites: dict[str, Site], tmp_path: Path) -> None:
    units = {
        Path(path).name: item.text
        for path, item in files(sites["1.35"], "kubernetes_control_plane").items()
        if path.startswith("/etc/systemd/system/")
    }
    assert len(units) == 6
    for name, text in units.items():
        for program in executables(text):
            text = text.replace(program, "/bin/true")
        (tmp_path / name).write_text(text)
    (tmp_path / "containerd.service").write_text(PACKAGED)
    reported = judge("systemd-analyze", "verify", "--man=no", *sorted(tmp_path.glob("gpufleet-*")))
    assert not [line for line in reported.splitlines() if "gpufleet-" in line], reported


def test_encryption_key_is_in_one_file_readable_only_by_root(sites: dict[str, Site]) -> None:
    key = SECRETS["kubernetes_control_plane_encryption_key"]
    found = {
        path: item
        for role in sites["1.35"].roles("ctl01")
        for path, item in files(sites["1.35"], role).items()
        if key in item.text
    }
    assert set(found) == {f"{FOLDER}/encryption.yaml"}
    assert found[f"{FOLDER}/encryption.yaml"].mode == "0600" and found[f"{FOLDER}/encryption.yaml"].secret


def test_containerd_asks_the_image_mirror_only_if_the_site_names_one(
    sites: dict[str, Site], tmp_path: Path
) -> None:
    path = "/etc/containerd/certs.d/_default/hosts.toml"
    assert path not in files(sites[MINOR], "kubernetes_base")
    line = "    image_mirror: https://registry.example.com\n"
    mirrored = Site(fleet(MINOR).replace(SETTINGS[:14], line + SETTINGS[:14]), tmp_path)
    assert tomllib.loads(files(mirrored, "kubernetes_base")[path].text) == {
        "host": {"https://registry.example.com": {"capabilities": ["pull", "resolve"]}}
    }


def test_kernel_has_the_settings_without_which_the_kubelet_refuses_to_start(sites: dict[str, Site]) -> None:
    """The names and values of setupKernelTunables in kubelet 1.35, with protectKernelDefaults."""
    path = "/etc/sysctl.d/91-gpufleet-kubernetes.conf"
    lines = files(sites[MINOR], "kubernetes_base")[path].text.splitlines()
    found = dict(line.split(" = ") for line in lines if not line.startswith("#"))
    assert (
        found
        | {
            "vm.overcommit_memory": "1",
            "vm.panic_on_oom": "0",
            "kernel.panic": "10",
            "kernel.panic_on_oops": "1",
            "kernel.keys.root_maxkeys": "1000000",
            "kernel.keys.root_maxbytes": "25000000",
        }
        == found
    )


def test_limit_of_a_pod_leaves_process_ids_to_the_host(sites: dict[str, Site]) -> None:
    text = files(sites[MINOR], "kubernetes_control_plane")[f"{FOLDER}/kubeadm.yaml"].text
    kubelet = next(part for part in yaml.safe_load_all(text) if part["kind"] == "KubeletConfiguration")
    pods, most = 110, 4_194_304  # the kubelet's maxPods; PID_MAX_LIMIT of 64-bit kernels
    assert 0 < pods * kubelet["podPidsLimit"] < most * 7 / 8


@pytest.mark.parametrize(("reserved", "policy"), [(2, "static"), (0, "none")])
def test_processors_are_pinned_only_if_some_are_reserved(
    sites: dict[str, Site], reserved: int, policy: str
) -> None:
    """kubelet: "the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"."""
    path = f"{PATCHES}/kubeletconfiguration+merge.yaml"
    more = {"kubernetes_node_reserved_cpus": reserved}
    kubelet = yaml.safe_load(files(sites[MINOR], "kubernetes_node", "dgx01", **more)[path].text)
    assert kubelet["cpuManagerPolicy"] == policy
    assert kubelet["kubeReserved"]["cpu"] == str(reserved)
    assert kubelet["topologyManagerPolicy"] == "best-effort"


def test_every_host_of_the_cluster_is_listed_for_its_serving_certificate(sites: dict[str, Site]) -> None:
    item = files(sites[MINOR], "kubernetes_control_plane")[f"{FOLDER}/kubelets.json"]
    listed = {host["name"]: host["address"] for host in json.loads(item.text)}
    assert set(listed) == {"ctl01", "ctl02", "ctl03", "dgx01", "dgx02", "dgx03", "dgx04"}
    assert listed["ctl02"] == "10.90.0.12" and item.mode == "0600"


@pytest.mark.parametrize("role", ["kubernetes_control_plane", "kubernetes_node"])
def test_cgroup_v1_is_refused_from_1_35_on_before_anything_is_written(role: str) -> None:
    first = next(
        task for path, task in tasks(role) if path.name == "preflight.yml" and "cgroup" in task["name"]
    )
    that = first["ansible.builtin.assert"]["that"]
    assert "is version('1.35', '<')" in that and that.endswith("or ansible_facts.gpufleet_kubelet_cgroup_v1")
    (main,) = [list(yaml.safe_load((Path("ansible/roles") / role / "tasks/main.yml").read_text()))]
    assert main[0]["ansible.builtin.import_tasks"] == "preflight.yml"
