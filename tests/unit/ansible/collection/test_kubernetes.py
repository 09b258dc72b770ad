"""Clusters with kubeadm and kubectl: initialized once, joined once, upgraded one minor at a time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
kubeadm = load("kubeadm")
invitation = load("kubeadm_invitation")
nodes = load("kubernetes_nodes")
release = load("kubeadm_release")
swap = load("swap")
utils = sys.modules[nodes.kubectl.__module__]
RefusalError = kubeadm.RefusalError
Release = kubeadm.Release

# kubeadm as far as files tell: init and join leave what makes a host a member.
KUBEADM = """\
case "$*" in
  version*) echo '{{"clientVersion": {{"gitVersion": "v1.35.4"}}}}';;
  "config validate"*) ;;
  reset*) rm -rf {root}/etc/kubernetes {root}/var/lib/etcd;;
  init*phase*|upgrade*|token*) ;;
  init*|join*)
    if [ -e {root}/break ]; then mkdir -p {root}/var/lib/etcd/member; exit 1; fi
    mkdir -p {root}/etc/kubernetes/manifests {root}/var/lib/etcd/member
    touch {root}/etc/kubernetes/kubelet.conf
    case "$1" in init) touch {root}/etc/kubernetes/manifests/kube-apiserver.yaml;; esac;;
esac
"""
CONFIG = 'apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: "v{}"\n'


class Host:
    """A host's files in a folder, with a kubeadm that writes the same files as the real one."""

    def __init__(self, root: Path, programs: Programs) -> None:
        self.root, self.programs = root, programs
        self.config = root / "kubeadm.yaml"
        self.configure("1.35.4")
        programs.add("kubeadm", KUBEADM.format(root=root))
        programs.add("kubectl", "echo 'podPidsLimit: 100'")

    def configure(self, version: str, more: str = "") -> None:
        self.config.write_text(CONFIG.format(version) + more)

    def work(self, state: str, *, check: bool = False, **more: Any) -> dict[str, Any]:
        params = {"state": state, "config": str(self.config), "release": "", "upload": False, "timeout_s": 60}
        params |= {"others": [], "port": 6443, "ignored": []}
        answer: dict[str, Any] = kubeadm.work(params | more, check, self.root)
        return answer

    def verbs(self) -> list[str]:
        return [" ".join(line.split()[1:3]) for line in self.programs.called("kubeadm")]


@pytest.fixture
def host(tmp_path: Path, programs: Programs) -> Host:
    root = tmp_path / "host"
    root.mkdir()
    return Host(root, programs)


@pytest.mark.parametrize(
    ("now", "wanted", "says"),
    [
        ("1.34.4", "1.35.4", ""),
        ("1.35.4", "1.35.4", ""),
        ("1.35.1", "1.35.4", ""),
        ("1.34.4", "1.36.3", "skips 1 minor version:"),
        ("1.33.0", "1.36.3", "skips 2 minor versions:"),
        ("1.35.4", "1.34.4", "is older"),
        ("1.35.4", "1.35.3", "is older"),
    ],
)
def test_cluster_upgrades_one_minor_at_a_time_and_never_downgrades(now: str, wanted: str, says: str) -> None:
    if not says:
        kubeadm.follow(Release.of(now), Release.of(wanted))
        return
    with pytest.raises(RefusalError, match=says):
        kubeadm.follow(Release.of(now), Release.of(wanted))


def test_skipped_minor_is_refused_before_kubeadm_runs(
    host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.add("dpkg-query", "printf 'installed 1.34.4-1.1'")
    assert release.compare("1.36.3", host.root)["install"] is True  # a host without a cluster may get any
    host.work("begun")
    with pytest.raises(RefusalError, match=r"Write the version 1\.35"):
        release.compare("1.36.3", host.root)
    # The next minor is for upgrade_kubernetes.yml: packages do not change before.
    assert release.compare("1.35.4", host.root) == {
        "changed": False,
        "installed": "1.34.4",
        "member": True,
        "install": False,
    }
    assert release.compare("1.34.4", host.root)["install"] is True


def pods(**releases: str) -> str:
    items = [
        {"spec": {"nodeName": name, "containers": [{"image": f"registry.k8s.io/kube-apiserver:v{text}"}]}}
        for name, text in releases.items()
    ]
    return f"echo '{json.dumps({'items': items})}'"


def test_nothing_may_be_newer_than_the_api_server(programs: Programs) -> None:
    wanted = Release.of("1.35.4")
    release.require_led([], wanted)
    assert programs.called("kubectl") == []
    programs.add("kubectl", pods(ctl01="1.35.4", ctl02="1.34.4"))
    release.require_led(["ctl01"], wanted)
    with pytest.raises(RefusalError, match=r"of ctl02 \(1\.34\.4\), ctl03 \(away\) do not run"):
        release.require_led(["ctl01", "ctl02", "ctl03"], wanted)
    programs.add("kubectl", pods(ctl01="1.36.0"))
    release.require_led(["ctl01"], wanted)


def test_unfinished_restore_is_not_overwritten_by_configure(host: Host, programs: Programs) -> None:
    programs.add("dpkg-query", "printf 'installed 1.35.4-1.1'")
    host.work("begun")
    release.compare("1.35.4", host.root)
    stopped = host.root / "etc/kubernetes/gpufleet/restore/stopped"
    stopped.mkdir(parents=True)
    release.compare("1.35.4", host.root)
    (stopped / "etcd.yaml").touch()
    with pytest.raises(RefusalError, match="restore --resume"):
        release.compare("1.35.4", host.root)


def test_authorities_of_a_lost_cluster_start_the_new_one_even_after_a_kill(host: Host) -> None:
    kept = host.root / "etc/kubernetes/gpufleet/authorities"
    (kept / "etcd").mkdir(parents=True)
    for name in ("ca.key", "etcd/ca.key"):
        (kept / name).write_text("of the lost one")
        (kept / name).chmod(0o600)
    placed = host.root / "etc/kubernetes/pki/etcd/ca.key"
    # kubeadm uses the files that it finds at initialization.
    look = f'case "$*" in "init --skip"*) cat {placed} >{host.root}/found;; esac\n'
    reset = KUBEADM.replace("rm -rf {root}/etc/kubernetes ", "rm -rf {root}/etc/kubernetes/pki ")
    host.programs.add("kubeadm", look + reset.format(root=host.root))
    (host.root / "break").touch()
    with pytest.raises(RefusalError, match="kubeadm init"):
        host.work("begun")
    (host.root / "break").unlink()
    host.work("begun")
    assert (host.root / "found").read_text() == "of the lost one"
    assert placed.stat().st_mode & 0o777 == 0o600
    assert not kept.exists()


def test_cluster_is_initialized_once(host: Host) -> None:
    assert host.work("begun", check=True)["changed"]
    assert host.verbs() == []
    assert host.work("begun")["did"] == ["began the cluster"]
    assert host.verbs() == ["config validate", "init --skip-token-print"]
    assert not host.work("begun")["changed"]
    assert not host.work("joined")["changed"]
    assert len(host.verbs()) == 2


def test_leftovers_of_a_killed_run_are_removed_and_created_again(host: Host) -> None:
    (host.root / "break").touch()
    with pytest.raises(RefusalError, match="kubeadm init"):
        host.work("begun")
    (host.root / "break").unlink()
    reported = host.work("begun")["did"]
    assert reported == ["took away what an interrupted run left", "began the cluster"]
    assert host.verbs()[-3:] == ["config validate", "reset --force", "init --skip-token-print"]
    assert host.work("known")["member"]


def test_data_of_another_cluster_is_never_reset(host: Host) -> None:
    (host.root / "var/lib/etcd/member").mkdir(parents=True)
    with pytest.raises(RefusalError, match="none that gpufleet began"):
        host.work("begun")
    assert (host.root / "var/lib/etcd/member").is_dir()
    assert host.verbs() == []


def test_changed_configuration_is_written_once(host: Host) -> None:
    host.work("begun")
    assert not host.work("current")["changed"]
    host.configure("1.35.4", "clusterName: other\n")
    assert host.work("current", check=True)["changed"]
    assert host.work("current", upload=True)["did"] == ["wrote the control plane's manifests"]
    phases = [line for line in host.programs.called("kubeadm") if " phase " in line]
    assert any("control-plane all" in line for line in phases)
    assert any("upload-config all" in line for line in phases)
    assert not any("etcd local" in line for line in phases)  # its members are in its data
    assert not host.work("current")["changed"]


def test_another_release_is_left_to_the_upgrade_playbook(host: Host) -> None:
    host.work("begun")
    host.configure("1.36.3")
    assert not host.work("current")["changed"]


def test_upgrade_runs_once_and_skips_no_minor(host: Host) -> None:
    with pytest.raises(RefusalError, match="part of no cluster"):
        host.work("applied", release="1.35.4")
    host.work("begun")
    assert host.work("applied", release="1.35.4")["did"] == ["led it to 1.35.4"]
    assert not host.work("applied", release="1.35.4")["changed"]
    assert host.programs.called("kubeadm upgrade") == ["kubeadm upgrade apply v1.35.4 --yes"]
    with pytest.raises(RefusalError, match="skips 1 minor"):
        host.work("applied", release="1.37.0")


def test_upgrade_ignores_the_preflight_checks_that_it_is_given(host: Host) -> None:
    host.work("begun")
    host.work("upgraded", release="1.35.4", ignored=["SystemVerification"])
    (line,) = host.programs.called("kubeadm upgrade")
    assert "--ignore-preflight-errors=SystemVerification" in line.split()


def test_node_settings_change_with_its_upgrade(host: Host) -> None:
    host.work("joined")
    (host.root / "etc/kubernetes/gpufleet/patches").mkdir(parents=True)
    assert host.work("current")["did"] == ["wrote the kubelet's configuration"]
    host.work("upgraded", release="1.35.4")
    assert all("--patches" in line for line in host.programs.called("kubeadm upgrade"))


def test_node_follows_the_kubelet_configuration_of_its_cluster(host: Host) -> None:
    host.work("joined")
    host.work("current")
    assert not host.work("current")["changed"]
    host.programs.add("kubectl", "echo 'podPidsLimit: 200'")
    assert host.work("current", check=True)["changed"]
    assert host.work("current")["did"] == ["wrote the kubelet's configuration"]
    assert not host.work("current")["changed"]
    assert f"--kubeconfig {host.root}/etc/kubernetes/kubelet.conf" in host.programs.called("kubectl")[0]


def test_kubelet_configuration_is_readable_only_by_root(host: Host) -> None:
    config = host.root / "var/lib/kubelet/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("kind: KubeletConfiguration\n")
    config.chmod(0o644)
    host.work("begun")
    assert config.stat().st_mode & 0o777 == 0o600
    config.chmod(0o644)
    assert not host.work("known")["changed"]
    assert host.work("current", check=True)["did"] == [
        "made /var/lib/kubelet/config.yaml readable only by root"
    ]
    assert config.stat().st_mode & 0o777 == 0o644
    assert host.work("current")["changed"] and config.stat().st_mode & 0o777 == 0o600
    assert not host.work("current")["changed"]


def test_join_secrets_are_in_no_argument(
    host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.work("begun")
    (host.root / "etc/kubernetes/admin.conf").touch()
    (host.root / "etc/kubernetes/pki").mkdir()
    kept = host.root / "kept.json"
    programs.add("kubeadm", KUBEADM.format(root=host.root) + f'[ "$1" = token ] && cp "$4" {kept}; true')
    programs.add(
        "openssl", 'case "$1" in pkey) for w in "$@"; do f=$w; done; printf key >"$f";; *) echo PEM;; esac'
    )
    made = invitation.invite(True, 30, host.root)
    words = "\n".join(programs.called())
    assert made["token"] not in words and made["certificate_key"] not in words
    assert made["token"].partition(".")[2] not in words
    document = json.loads(kept.read_text().partition("\n---\n")[0])
    assert document["bootstrapTokens"][0]["token"] == made["token"]
    assert document["bootstrapTokens"][0]["ttl"] == "30m"
    assert made["ca_hash"].startswith("sha256:")
    assert invitation.invite(False, 30, host.root)["certificate_key"] == ""
    assert invitation.invite(False, 30, host.root)["token"] != made["token"]


def test_token_is_deleted_after_the_join_or_if_its_creation_fails(host: Host, programs: Programs) -> None:
    host.work("begun")
    (host.root / "etc/kubernetes/admin.conf").touch()
    programs.add("kubectl", "")
    programs.add("kubeadm", 'case "$*" in *upload-certs*) exit 1;; esac\n' + KUBEADM.format(root=host.root))
    with pytest.raises(RefusalError, match="kubeadm init phase upload-certs"):
        invitation.invite(True, 30, host.root)
    invitation.revoke("abcdef.0123456789abcdef", host.root)
    failed, ended = (line.split() for line in programs.called("kubectl"))
    assert failed[3:5] == ["delete", "secret"] and failed[-1].startswith("bootstrap-token-")
    assert ended[-1] == "bootstrap-token-abcdef" and "0123456789abcdef" not in " ".join(ended)


def test_join_is_refused_without_a_cluster(host: Host) -> None:
    with pytest.raises(RefusalError, match="initializes the cluster first"):
        invitation.invite(False, 30, host.root)


def node(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "metadata": {"name": "dgx001", "labels": {"kubernetes.io/hostname": "dgx001"}, "annotations": {}},
        "spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    return made | changes


def merged(there: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """The result of a merge patch (RFC 7386)."""
    made = dict(there)
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict):
            made[key] = merged(made.get(key, {}), value)
        else:
            made[key] = value
    return made


def test_labels_and_taints_are_set_once_and_only_managed_ones_are_removed() -> None:
    labels = {"gpufleet.io/rack": "r1", "example.com/a": "b"}
    taints = [{"key": "ours", "value": "yes", "effect": "NoExecute"}]
    patch = nodes.patch_for(node(), labels, taints)
    marked = merged(node(), patch)
    assert labels.items() <= marked["metadata"]["labels"].items()
    assert {item["key"] for item in marked["spec"]["taints"]} == {"other", "ours"}
    assert nodes.patch_for(marked, labels, taints) == {}
    bare = merged(marked, nodes.patch_for(marked, {"gpufleet.io/rack": "r2"}, []))
    assert bare["metadata"]["labels"] == {"kubernetes.io/hostname": "dgx001", "gpufleet.io/rack": "r2"}
    assert [item["key"] for item in bare["spec"]["taints"]] == ["other"]


KUBECTL = """\
case "$*" in
  *"get nodes"*) cat {nodes};;
  *" drain "*) [ ! -e {folder}/stuck ];;
esac
"""


def cluster(programs: Programs, tmp_path: Path, *there: dict[str, Any]) -> str:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({"items": list(there)}))
    programs.add("kubectl", KUBECTL.format(nodes=file, folder=tmp_path))
    config = tmp_path / "admin.conf"
    config.touch()
    return str(config)


def params(**changes: Any) -> dict[str, Any]:
    return {"labels": {}, "taints": {}, "drain": [], "ready": [], "timeout_s": 0} | changes


def test_drained_node_is_marked_and_a_manual_cordon_is_kept(programs: Programs, tmp_path: Path) -> None:
    config = cluster(programs, tmp_path, node())
    assert nodes.work(params(drain=["dgx001"]), False, config)["nodes"] == {"dgx001": ["drained"]}
    reported = "\n".join(programs.called("kubectl"))
    assert reported.index("annotate node dgx001") < reported.index("drain dgx001")
    mine = node(spec={"unschedulable": True})
    config = cluster(programs, tmp_path, mine)
    before = len(programs.called("kubectl"))
    nodes.work(params(drain=["dgx001"], ready=["dgx001"]), False, config)
    later = "\n".join(programs.called("kubectl")[before:])
    assert "annotate" not in later and "uncordon" not in later
    ours = node(spec={"unschedulable": True})
    ours["metadata"]["annotations"] = {nodes.DRAINED: "yes"}
    config = cluster(programs, tmp_path, ours)
    assert nodes.work(params(ready=["dgx001"]), False, config)["nodes"] == {"dgx001": ["returned"]}
    assert any("uncordon dgx001" in line for line in programs.called("kubectl"))


def test_administrator_is_refused_only_by_a_server_that_starts(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(utils, "PAUSE_S", 0.01)
    forbidden = 'nodes is forbidden: User \\"kubernetes-admin\\" cannot list resource \\"nodes\\"'
    once = (
        f'[ -e {tmp_path}/ready ] || {{ touch {tmp_path}/ready; echo "Error: {forbidden}" >&2; exit 1; }}\n'
    )
    programs.add("kubectl", once + "echo '{\"items\": []}'")
    assert utils.read_nodes() == {}
    assert len(programs.called("kubectl")) == 2
    (tmp_path / "ready").unlink()
    programs.add("kubectl", once.replace(forbidden, "Get nodes: EOF") + "echo '{\"items\": []}'")
    assert utils.read_nodes() == {}
    monkeypatch.setattr(utils, "STARTING_S", 0.1)
    (tmp_path / "ready").unlink()
    with pytest.raises(RefusalError, match="EOF"):
        utils.kubectl("delete", "node", "dgx01")
    programs.add("kubectl", f'echo "Error: {forbidden}" >&2; exit 1')
    with pytest.raises(RefusalError, match="is forbidden"):
        utils.read_nodes()
    programs.add("kubectl", 'echo "Error: nodes is forbidden: User \\"viewer\\" cannot list" >&2; exit 1')
    before = len(programs.called("kubectl"))
    with pytest.raises(RefusalError, match="viewer"):
        utils.read_nodes()
    assert len(programs.called("kubectl")) == before + 1


def test_member_whose_api_server_starts_again_is_waited_for(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes.time, "sleep", lambda _: None)
    config = cluster(programs, tmp_path, node())
    listed = json.dumps({"items": [node()]})
    programs.add(
        "kubectl",
        f"n=$(cat {tmp_path}/n 2>/dev/null || echo 0); echo $((n + 1)) >{tmp_path}/n\n"
        f"[ $n = 1 ] && {{ echo 'connection refused' >&2; exit 1; }}\necho '{listed}'",
    )
    assert nodes.work(params(ready=["dgx001"], timeout_s=60), False, config)["changed"] is False


def test_node_that_does_not_return_stays_drained(programs: Programs, tmp_path: Path) -> None:
    lost = node(status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
    config = cluster(programs, tmp_path, lost)
    with pytest.raises(RefusalError, match="dgx001 is not ready"):
        nodes.work(params(ready=["dgx001"]), False, config)
    assert not any("uncordon" in line for line in programs.called("kubectl"))


def test_pods_that_do_not_leave_stop_the_run_before_any_change(programs: Programs, tmp_path: Path) -> None:
    config = cluster(programs, tmp_path, node())
    (tmp_path / "stuck").touch()
    with pytest.raises(RefusalError, match="drain"):
        nodes.work(params(drain=["dgx001"]), False, config)


def test_nodes_that_have_not_joined_are_reported(programs: Programs, tmp_path: Path) -> None:
    config = cluster(programs, tmp_path, node())
    found = nodes.work(params(labels={"dgx001": {}, "dgx002": {"a": "b"}}), False, config)
    assert found["missing"] == ["dgx002"]
    assert not found["changed"]


def test_swap_is_disabled_now_and_at_boot(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "swapping"
    for folder in ("etc", "proc"):
        (root / folder).mkdir(parents=True)
    (root / "etc/fstab").write_text("/dev/sda1 / ext4 defaults 0 1\n/swap.img none swap sw 0 0\n")
    (root / "proc/swaps").write_text("Filename Type Size Used Priority\n/swap.img file 8 0 -2\n")
    programs.add("systemd-detect-virt", "exit 1")
    programs.add("swapoff", f"printf 'Filename Type\\n' >{root}/proc/swaps")
    assert swap.work(False, True, root)["devices"] == ["/swap.img"]
    assert programs.called("swapoff") == []
    assert swap.work(False, False, root)["changed"]
    assert programs.called("swapoff") == ["swapoff /swap.img"]
    assert (root / "etc/fstab").read_text().splitlines()[1].startswith("# gpufleet switched swap off: /swap")
    assert not swap.work(False, False, root)["changed"]
