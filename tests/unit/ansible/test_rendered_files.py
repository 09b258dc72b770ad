"""Files of the roles, on all systems and kinds of hosts, verified with the programs that read them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.programs import find_program
from tests.rack.lab import fleet_text
from tests.unit.ansible.rendering import DISTRIBUTIONS, SECRETS, RenderedFile, Site

# Rendered once: each process would do it again.
pytestmark = pytest.mark.xdist_group("rendered-files")

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDnhL1hGxMpVPvpb2Z1uHFi7cnYJTm5EKOiGGDtDzzN0 ada@example.com"
MORE = f"""\
    users:
      - {{ name: ada, uid: 2001, sudo: true, ssh_keys: ["{KEY}"], teams: [research] }}
      - {{ name: bob, uid: 2002, ssh_keys: ["{KEY}"], groups: [science] }}
    groups: [{{ name: science, gid: 3000 }}]
    time_servers: [10.90.0.1, ntp.example.com]
    local_nvme: {{ mount: /raid, cache: /raid/cache }}
    ownership: {{ acquisition: 262800 USD, lifetime: 5 y }}
    monitoring:
      host: ctl01
      retention_size: 200 GiB
      remote_write: {{ url: "https://metrics.example.com/push", username: lab }}
      alerts:
        webhook: {{ url: "https://hooks.example.com/gpu", token: true }}
        slack: {{ channel: "#gpu" }}
        email:
          to: [a@example.com, b@example.com]
          sender: c@example.com
          server: "mail.example.com:587"
          username: lab
      open_to: [10.20.0.0/16, "fd00::/8"]
    racks: [{{ name: r1, nodes: "dgx[01-02]" }}]
"""
INFINIBAND = """\
fabric:
      kind: infiniband
      speed: ndr
      topology: fat-tree
      rails: [mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7]
      ipoib: true
      switches: [{ name: spine1, tier: spine, guid: "0x0002c90300000001" }]
      subnet_managers: [{ host: ctl01, priority: 15 }, { host: ctl02, priority: 14 }]
      partitions: [{ name: tenant, pkey: "0x0012" }]
"""
ROCE = "fabric: { kind: roce, speed: 400gbe, topology: rail-optimized }\n"
# Nodes and the first controller get most roles: they are rendered on every system.
HOSTS = {
    "infiniband": {"dgx01": list(DISTRIBUTIONS), "ctl01": list(DISTRIBUTIONS), "ctl02": ["debian_12"]},
    "roce": {"dgx01": ["debian_12", "dgx_os_7"], "login01": ["ubuntu_22_04"]},
}
# Prometheus, Alertmanager and Grafana have templates of their own.
TEMPLATES_OF_OTHERS = (
    *("/usr/lib/gpufleet/", "/etc/prometheus/gpufleet/", "/etc/prometheus/alertmanager.yml"),
    "/etc/grafana/gpufleet/dashboards/",
)
# Secrets with special characters up to the last one.
WITHOUT_NEWLINE = (
    *("/etc/munge/munge.key", "/etc/prometheus/gpufleet-remote-write"),
    "/etc/grafana/gpufleet/admin-password",
)
# Units of packages with drop-ins, and units that ours refer to.
PACKAGED = "[Unit]\nDescription=of a package\n[Service]\nExecStart=/bin/true\n"


def fleet(fabric: str) -> str:
    text = fleet_text(more=MORE)
    line = next(line for line in text.splitlines() if line.strip().startswith("fabric:"))
    return text.replace(line.strip() + "\n", fabric)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    made = {}
    for name, fabric in (("infiniband", INFINIBAND), ("roce", ROCE)):
        made[name] = Site(fleet(fabric), tmp_path_factory.mktemp(name))
    return made


@pytest.fixture(scope="module")
def trees(sites: dict[str, Site]) -> dict[tuple[str, str, str], dict[str, RenderedFile]]:
    """All files of each host, by fabric, host and system."""
    found = {}
    for fabric, site in sites.items():
        for host, systems in HOSTS[fabric].items():
            for system in systems:
                tree: dict[str, RenderedFile] = {}
                for role in site.roles(host):
                    mine = site.rendered(host, role, system)
                    assert not mine.keys() & tree.keys(), f"two roles write {mine.keys() & tree.keys()}"
                    tree |= mine
                found[fabric, host, system] = tree
    return found


@pytest.fixture(scope="module")
def texts(
    trees: dict[tuple[str, str, str], dict[str, RenderedFile]],
) -> Callable[[str], dict[str, RenderedFile]]:
    """Different files whose path matches a pattern, each once, by where it was seen first."""

    def matching(pattern: str) -> dict[str, RenderedFile]:
        seen: dict[tuple[str, str], str] = {}
        found: dict[str, RenderedFile] = {}
        for where, tree in trees.items():
            for path, item in tree.items():
                if re.search(pattern, path) and (path, item.text) not in seen:
                    seen[path, item.text] = name = f"{'/'.join(where)}:{path}"
                    found[name] = item
        assert found, f"no role writes {pattern}"
        return found

    return matching


def judge(*command: str | Path, accept: tuple[int, ...] = (0,)) -> str:
    """Output of a program; asserts that it accepts its input."""
    words = list(map(str, command))
    done = subprocess.run(
        [find_program(words[0]), *words[1:]], capture_output=True, text=True, check=False, timeout=60
    )
    reported = done.stdout + done.stderr
    assert done.returncode in accept, reported
    return reported


def executables(text: str) -> Iterator[str]:
    """Programs that a unit starts."""
    yield from re.findall(r"^Exec\w+=[-@:+!]*(/\S+)", text, re.M)


@pytest.mark.fresh
def test_systemd_accepts_every_unit_and_drop_in(
    trees: dict[tuple[str, str, str], dict[str, RenderedFile]], tmp_path: Path
) -> None:
    judged: set[tuple[str, ...]] = set()
    for number, (where, tree) in enumerate(trees.items()):
        units = {path: item.text for path, item in tree.items() if path.startswith("/etc/systemd/system/")}
        if tuple(sorted(units.values())) in judged:
            continue
        judged.add(tuple(sorted(units.values())))
        root = tmp_path / str(number)
        names = set()
        for path, text in units.items():
            inside = root / path.lstrip("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.write_text(text)
            names.add(inside.parent.name.removesuffix(".d") if path.endswith(".conf") else inside.name)
            for program in executables(text):
                place(root / program.lstrip("/"), "#!/bin/sh\n", 0o755)
        place(root / "bin/true", "#!/bin/sh\n", 0o755)
        for name in names:
            if not (root / "etc/systemd/system" / name).exists():
                place(root / "usr/lib/systemd/system" / name, PACKAGED, 0o644)
        reported = judge(
            "systemd-analyze", "verify", f"--root={root}", "--man=no", "--recursive-errors=no", *names
        )
        assert reported.strip() == "", where
    assert judged


def place(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def test_systemd_rejects_an_invalid_unit(tmp_path: Path) -> None:
    place(tmp_path / "etc/systemd/system/x.service", "[Service]\nExecStart=/bin/none\nRestrt=always\n", 0o644)
    reported = judge("systemd-analyze", "verify", f"--root={tmp_path}", "--man=no", "x.service", accept=(1,))
    assert "Restrt" in reported and "/bin/none" in reported


def test_sudo_accepts_every_rule(texts: Callable[[str], dict[str, RenderedFile]], tmp_path: Path) -> None:
    found = texts(r"^/etc/sudoers\.d/")
    assert any(re.search(r"^ada\s", item.text, re.M) for item in found.values())
    assert not any(re.search(r"^bob\s", item.text, re.M) for item in found.values())
    for where, item in found.items():
        assert item.mode == "0440", where
        place(tmp_path / "sudoers", item.text, 0o440)
        assert "parsed OK" in judge("visudo", "-cf", tmp_path / "sudoers"), where
    place(tmp_path / "bad", "ada ALL=(ALL NOPASSWD ALL\n", 0o440)
    judge("visudo", "-cf", tmp_path / "bad", accept=(1,))


def sshd(*words: str | Path, accept: tuple[int, ...] = (0,)) -> str:
    """sshd, with the folder that its service makes before it starts."""
    script = 'mount -t tmpfs run /run && mkdir /run/sshd && exec /usr/sbin/sshd "$@"'
    return judge("unshare", "-r", "-m", "sh", "-c", script, "sshd", *words, accept=accept)


def test_sshd_accepts_the_drop_in_with_its_main_configuration(
    texts: Callable[[str], dict[str, RenderedFile]], tmp_path: Path
) -> None:
    place(tmp_path / "key", "", 0o600)
    (tmp_path / "key").unlink()
    judge("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key")
    for where, item in texts(r"sshd_config\.d/").items():
        place(tmp_path / "drop.conf", item.text, 0o644)
        place(tmp_path / "sshd_config", f"Include {tmp_path}/drop.conf\nHostKey {tmp_path}/key\n", 0o600)
        effective = sshd("-T", "-C", "user=ada,host=h,addr=10.90.0.1", "-f", tmp_path / "sshd_config")
        assert "passwordauthentication no" in effective, where
    place(tmp_path / "drop.conf", "PaswordAuthentication no\n", 0o644)
    sshd("-t", "-f", tmp_path / "sshd_config", accept=(255,))


def test_nftables_accepts_the_rules_of_every_host(
    texts: Callable[[str], dict[str, RenderedFile]], tmp_path: Path
) -> None:
    for where, item in texts(r"^/etc/nftables\.conf$").items():
        assert "policy drop" in item.text, where
        place(tmp_path / "rules", item.text, 0o644)
        judge("unshare", "-r", "--net", "nft", "-c", "-f", tmp_path / "rules")
    place(tmp_path / "rules", "table inet x { chain y { tcp dprt 22 accept } }\n", 0o644)
    judge("unshare", "-r", "--net", "nft", "-c", "-f", tmp_path / "rules", accept=(1,))


def test_chrony_accepts_the_configuration(
    texts: Callable[[str], dict[str, RenderedFile]], tmp_path: Path
) -> None:
    for where, item in texts(r"^/etc/chrony/chrony\.conf$").items():
        place(tmp_path / "chrony.conf", item.text, 0o644)
        printed = judge("chronyd", "-p", "-f", tmp_path / "chrony.conf")
        assert "ntp.example.com" in printed, where
    place(tmp_path / "chrony.conf", "servr x\n", 0o644)
    judge("chronyd", "-p", "-f", tmp_path / "chrony.conf", accept=(1,))


def test_apt_accepts_settings_and_preferences(
    texts: Callable[[str], dict[str, RenderedFile]], tmp_path: Path
) -> None:
    for item in texts(r"^/etc/apt/apt\.conf\.d/").values():
        place(tmp_path / "apt.conf", item.text, 0o644)
        judge("apt-config", "-c", tmp_path / "apt.conf", "dump")
    for where, item in texts(r"^/etc/apt/preferences\.d/").items():
        place(tmp_path / "preferences", item.text, 0o644)
        reported = judge("apt-cache", "-o", f"Dir::Etc::preferences={tmp_path}/preferences", "policy")
        assert not re.search(r"^[EW]:", reported, re.M), where


def test_every_sysctl_setting_is_well_formed(texts: Callable[[str], dict[str, RenderedFile]]) -> None:
    for where, item in texts(r"^/etc/sysctl\.d/").items():
        lines = [line for line in item.text.splitlines() if line and line[0] not in "#;"]
        assert lines
        for line in lines:
            assert re.fullmatch(r"-?[a-z0-9_.-]+\s*=\s*[\w .:/-]+", line), f"{where}: {line}"


def test_python_and_shell_programs_compile(
    texts: Callable[[str], dict[str, RenderedFile]], tmp_path: Path
) -> None:
    seen = set()
    for where, item in texts(r"^/usr/lib/gpufleet/").items():
        first = item.text.partition("\n")[0]
        seen.add(first.rpartition("/")[2])
        if "python" in first or item.path.endswith(".py"):
            compile(item.text, where, "exec")
        else:
            place(tmp_path / "program", item.text, 0o644)
            judge("sh", "-n", tmp_path / "program")
    assert "python3" in seen


def test_json_files_are_valid_json(texts: Callable[[str], dict[str, RenderedFile]]) -> None:
    for item in texts(r"\.json$").values():
        assert json.loads(item.text)


def test_no_readable_file_has_a_secret(
    trees: dict[tuple[str, str, str], dict[str, RenderedFile]],
) -> None:
    carriers = set()
    for where, tree in trees.items():
        for path, item in tree.items():
            if any(secret in item.text for secret in SECRETS.values()):
                carriers.add(path)
                assert item.secret and item.mode in ("0400", "0600"), (where, path)
    assert carriers == {
        "/etc/munge/munge.key",
        "/etc/slurm/slurmdbd.conf",
        "/etc/prometheus/alertmanager.yml",
        "/etc/prometheus/gpufleet-remote-write",
        "/etc/grafana/gpufleet/admin-password",
    }


def test_prometheus_accepts_the_configuration_with_all_rules(
    texts: Callable[[str], dict[str, RenderedFile]], tmp_path: Path
) -> None:
    folder = tmp_path / "gpufleet"
    for item in texts(r"^/etc/prometheus/gpufleet/").values():
        place(folder / item.path.rpartition("/")[2], item.text, 0o644)
    assert len(list(folder.iterdir())) == 10
    for where, item in texts(r"^/etc/prometheus/prometheus\.yml$").items():
        text = item.text.replace("/etc/prometheus/gpufleet/", f"{folder}/")
        place(tmp_path / "password", "x", 0o600)
        place(
            tmp_path / "p.yml",
            text.replace("/etc/prometheus/gpufleet-remote-write", f"{tmp_path}/password"),
            0o644,
        )
        assert "10 rule files found" in judge("promtool", "check", "config", tmp_path / "p.yml"), where
        assert 'labels: {instance: "dgx02", role: "gpu", rack: "r1"}' in text
        assert 'labels: {instance: "dgx03", role: "gpu"}' in text
    place(tmp_path / "p.yml", "scrape_configs: [{job_nam: x}]\n", 0o644)
    judge("promtool", "check", "config", tmp_path / "p.yml", accept=(1,))


def test_a_scrape_of_slurm_outlasts_the_commands_of_its_exporter(
    texts: Callable[[str], dict[str, RenderedFile]],
) -> None:
    units = texts(r"/gpufleet-slurm-exporter\.service$").values()
    (command_s,) = {int(word) for item in units for word in re.findall(r"--timeout (\d+)", item.text)}
    for where, item in texts(r"^/etc/prometheus/prometheus\.yml$").items():
        (job,) = [job for job in yaml.safe_load(item.text)["scrape_configs"] if job["job_name"] == "slurm"]
        scrape_s, interval_s = (int(job[f"scrape_{name}"][:-1]) for name in ("timeout", "interval"))
        assert 2 * command_s <= scrape_s <= interval_s, where


def test_alertmanager_accepts_the_receivers_with_their_secrets(
    texts: Callable[[str], dict[str, RenderedFile]], tmp_path: Path
) -> None:
    for where, item in texts(r"^/etc/prometheus/alertmanager\.yml$").items():
        place(tmp_path / "a.yml", item.text, 0o600)
        judge("amtool", "check-config", tmp_path / "a.yml")
        written = yaml.safe_load(item.text)
        assert written["global"]["smtp_auth_password"] == SECRETS["alertmanager_smtp_password"], where
        heartbeat, receiver = written["receivers"]
        # The alert that always fires goes only there.
        first = written["route"]["routes"][0]
        assert (first["match"], first["receiver"]) == ({"alertname": "Watchdog"}, heartbeat["name"])
        assert "continue" not in first and first["repeat_interval"] == "5m"
        assert heartbeat["webhook_configs"][0]["url"] == SECRETS["alertmanager_heartbeat_url"]
        assert receiver["slack_configs"][0]["api_url"] == SECRETS["alertmanager_slack_url"]
        assert [each["to"] for each in receiver["email_configs"]] == ["a@example.com", "b@example.com"]
    place(tmp_path / "a.yml", "route: {receiver: nobody}\n", 0o600)
    judge("amtool", "check-config", tmp_path / "a.yml", accept=(1,))


def test_grafana_gets_its_data_sources_and_six_dashboards(
    texts: Callable[[str], dict[str, RenderedFile]],
) -> None:
    boards = [json.loads(item.text) for item in texts(r"^/etc/grafana/gpufleet/dashboards/").values()]
    assert {board["title"] for board in boards} == {"Fleet", "Node", "Fabric", "Jobs", "Cost", "Power"}
    (source,) = [yaml.safe_load(item.text) for item in texts(r"provisioning/datasources/").values()]
    uids = {item["uid"] for item in source["datasources"]}
    assert {
        panel["datasource"]["uid"] for board in boards for panel in board["panels"] if "datasource" in panel
    } <= uids
    (provider,) = [yaml.safe_load(item.text) for item in texts(r"provisioning/dashboards/").values()]
    assert provider["providers"][0]["options"]["path"] == "/etc/grafana/gpufleet/dashboards"


def test_grafana_takes_the_password_of_admin_from_its_file(
    texts: Callable[[str], dict[str, RenderedFile]],
) -> None:
    # The server expands `$__file{}`; the variable with `__FILE` is one of its container image.
    (unit,) = texts(r"/grafana-server\.service\.d/").values()
    variables = dict(re.findall(r"^Environment=(\w+)=(.*)$", unit.text, re.M))
    assert variables["GF_SECURITY_ADMIN_PASSWORD"] == "$__file{/etc/grafana/gpufleet/admin-password}"
    assert not [name for name in variables if name.endswith("__FILE")]


def test_grafana_listens_only_on_its_host_for_the_networks_of_the_site(
    trees: dict[tuple[str, str, str], dict[str, RenderedFile]],
) -> None:
    opened = {
        where for where, tree in trees.items() if "tcp dport 3000 accept" in tree["/etc/nftables.conf"].text
    }
    assert opened == {where for where in trees if where[1] == "ctl01"}


def test_files_name_their_source_and_have_a_proper_owner(
    trees: dict[tuple[str, str, str], dict[str, RenderedFile]],
) -> None:
    for tree in trees.values():
        for path, item in tree.items():
            assert item.owner in ("root", "munge", "slurm", "mysql", "prometheus", "grafana"), path
            assert int(item.mode, 8) & 0o022 == 0, f"{path} may be written by others"
            assert item.text.endswith("\n") or not item.text or path in WITHOUT_NEWLINE, path
            if not path.startswith(TEMPLATES_OF_OTHERS):
                assert "{{" not in item.text and "{%" not in item.text, path
