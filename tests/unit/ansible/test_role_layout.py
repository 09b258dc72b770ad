"""Layout of every role: files, systems, task names, secrets, and existing variables."""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from jinja2 import nodes

ANSIBLE = Path(__file__).resolve().parents[3] / "ansible"
COLLECTION = ANSIBLE / "plugins"
ROLES = sorted(path.name for path in (ANSIBLE / "roles").iterdir() if path.is_dir())
SYSTEMS = {"debian_12", "ubuntu_22_04", "ubuntu_24_04", "dgx_os_6", "dgx_os_7"}
SECRETS = {
    *("kubernetes_control_plane_encryption_key", "kubernetes_control_plane_previous_encryption_key"),
    *("munge_key", "slurm_database_password", "prometheus_remote_write_password", "grafana_admin_password"),
    *("alertmanager_webhook_token", "alertmanager_slack_url", "alertmanager_smtp_password"),
    "alertmanager_heartbeat_url",
    *("backup_target_identity", "backup_target_s3_key", "backup_target_ssh_key"),
}
NOT_MODULES = {
    *("name", "when", "register", "no_log", "changed_when", "failed_when", "check_mode", "diff", "vars"),
    *("loop", "loop_control", "throttle", "run_once", "delegate_to", "until", "retries", "delay", "tags"),
    *("block", "rescue", "always", "become", "become_user", "environment", "any_errors_fatal"),
}
# Keys whose text is an expression without braces.
EXPRESSIONS = {"when", "that", "changed_when", "failed_when", "until"}
# Ansible's own names, and those that the inventory gives to every host.
MAGIC = {
    *("ansible_facts", "ansible_check_mode", "ansible_diff_mode", "inventory_hostname", "hostvars", "groups"),
    *("group_names", "omit", "item", "lookup", "query", "range", "dict", "namespace", "loop", "role_path"),
    *("ansible_play_hosts", "ansible_play_hosts_all", "ansible_managed", "playbook_dir", "now", "q"),
    *("gpufleet_site", "gpufleet_role", "ansible_loop", "ansible_play_batch"),
}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None


def tasks_of(role: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """All tasks of a role with their files, those of blocks too."""

    def walk(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for task in found:
            yield task
            for part in ("block", "rescue", "always"):
                yield from walk(task.get(part, []))

    for path in sorted((ANSIBLE / "roles" / role / "tasks").glob("*.yml")):
        for task in walk(load(path) or []):
            yield path, task


def module_of(task: dict[str, Any]) -> str:
    found = [key for key in task if key not in NOT_MODULES]
    assert len(found) <= 1, f"{task.get('name')}: {found}"
    return found[0] if found else "block"


def options(role: str) -> dict[str, Any]:
    specs = load(ANSIBLE / "roles" / role / "meta" / "argument_specs.yml")
    return dict(specs["argument_specs"]["main"].get("options", {}))


def strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(key, text) of every text in nested YAML."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from strings(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner, key)


def parse(text: str, *, expression: bool = False) -> nodes.Template:
    """The syntax tree of a template, or of an expression without braces."""
    environment = jinja2.Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])
    with warnings.catch_warnings():
        # Regular expressions are not written as Python's texts are.
        warnings.simplefilter("ignore", DeprecationWarning)
        bare = expression and "{{" not in text and "{%" not in text
        return environment.parse("{{ (" + text + ") }}" if bare else text)


def names_in(tree: nodes.Template) -> tuple[set[str], set[str]]:
    """Names that are read, and those that are tested for existence first."""
    stored = {name.name for name in tree.find_all(nodes.Name) if name.ctx in ("store", "param")}
    stored |= {macro.name for macro in tree.find_all(nodes.Macro)}
    read = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "load"} - stored
    asked = {
        node.node.name
        for node in tree.find_all((nodes.Filter, nodes.Test))
        if node.name in ("default", "d", "defined", "undefined") and isinstance(node.node, nodes.Name)
    }
    return read, read & asked


def texts(role: str) -> Iterator[tuple[Path, str, bool]]:
    """All templated text of a role: path, text, whether it is a bare expression."""
    folder = ANSIBLE / "roles" / role
    for path in [*sorted((folder / "tasks").glob("*.yml")), folder / "vars" / "main.yml"]:
        for key, text in strings(load(path)):
            yield path, text, key in EXPRESSIONS
    for path in sorted((folder / "templates").rglob("*.j2")):
        yield path, path.read_text(encoding="utf-8"), False


@pytest.mark.parametrize("role", ROLES)
def test_every_role_has_the_standard_layout_and_no_handlers(role: str) -> None:
    folder = ANSIBLE / "roles" / role
    parts = ("defaults/main.yml", "meta/argument_specs.yml", "meta/main.yml", "tasks/main.yml", "README.md")
    for name in parts:
        assert (folder / name).is_file(), name
    assert not (folder / "handlers").exists()
    meta = load(folder / "meta" / "main.yml")
    assert meta["dependencies"] == [] and meta["galaxy_info"]["license"] == "Apache-2.0"
    platforms = {item["name"]: set(item["versions"]) for item in meta["galaxy_info"]["platforms"]}
    assert platforms == {"Ubuntu": {"jammy", "noble"}, "Debian": {"bookworm"}}
    first = (folder / "README.md").read_text(encoding="utf-8").splitlines()[0]
    assert first == f"# {role}"


@pytest.mark.parametrize("role", ROLES)
def test_required_variable_has_no_default(role: str) -> None:
    defaults = load(ANSIBLE / "roles" / role / "defaults" / "main.yml") or {}
    for name, option in options(role).items():
        if option.get("required"):
            assert "default" not in option and name not in defaults
        assert option["type"] in ("str", "int", "float", "bool", "list", "dict", "path", "raw")
        assert not any(defaults.get(name) for name in SECRETS)


def shape(value: Any) -> str:
    """The kind of a value; a template may become any."""
    return "template" if isinstance(value, str) and "{{" in value else type(value).__name__


@pytest.mark.parametrize("role", ROLES)
def test_variables_of_all_systems_are_complete(role: str) -> None:
    variables = load(ANSIBLE / "roles" / role / "vars" / "main.yml") or {}
    assert all(name.startswith(f"{role}__") for name in variables), "internals have two underscores"
    systems = variables.get(f"{role}__systems")
    if systems is None:
        return
    assert set(systems) == SYSTEMS
    shapes = {name: {key: shape(value) for key, value in system.items()} for name, system in systems.items()}
    for key in shapes["debian_12"]:
        kinds = {found[key] for found in shapes.values()} - {"template"}
        assert len(kinds) <= 1, f"{key}: {kinds}"
    assert all(found.keys() == shapes["debian_12"].keys() for found in shapes.values()), shapes
    assert variables[f"{role}__system"] == f"{{{{ {role}__systems[ansible_facts.gpufleet_system] }}}}"


@pytest.mark.parametrize("role", ROLES)
def test_tasks_have_names_full_module_names_and_ignore_nothing(role: str) -> None:
    own = {path.stem for path in (ANSIBLE / "roles" / role / "library").glob("*.py")}
    ours = {
        f"gpufleet.rack.{path.stem}"
        for kind in ("action", "modules")
        for path in (COLLECTION / kind).glob("*.py")
    }
    for path, task in tasks_of(role):
        where = f"{path.name}: {task.get('name')}"
        assert re.match(r"[A-Z]", task.get("name", "")), where
        module = module_of(task)
        assert module == "block" or module in own | ours or module.startswith("ansible.builtin."), where
        assert not {"ignore_errors", "notify", "ignore_unreachable"} & task.keys(), where
        assert task.get("failed_when") is not False, where
        assert module.rpartition(".")[2] not in ("shell", "command", "raw"), where
        if module.startswith(("ansible.builtin.import_tasks", "ansible.builtin.include_tasks")):
            named = task[module] if isinstance(task[module], str) else task[module]["file"]
            assert "{{" in named or (path.parent / named).is_file(), where


@pytest.mark.parametrize("role", ROLES)
def test_same_step_has_the_same_name_in_all_roles(role: str) -> None:
    folder = ANSIBLE / "roles" / role / "tasks"
    for task in load(folder / "main.yml"):
        if "ansible.builtin.import_tasks" in task:
            stem = task["ansible.builtin.import_tasks"].removesuffix(".yml")
            assert task["name"] == f"Import {stem} tasks"
    for task in load(folder / "install.yml") or []:
        if "gpufleet.rack.packages" in task:
            installs = "names" in task["gpufleet.rack.packages"]
            assert task["name"] == "Install packages" if installs else task["name"].startswith("Remove ")
    for task in load(folder / "run.yml") or []:
        if "gpufleet.rack.units" in task:
            assert task["name"].startswith("Enable and start "), task["name"]
    for task in load(folder / "verify.yml") or []:
        if module_of(task) in ("gpufleet.rack.measure", "gpufleet.rack.bmc"):
            assert task["name"].startswith("Verify "), task["name"]
    written = [task for task in load(folder / "configure.yml") or [] if "gpufleet.rack.files" in task]
    names = [task["name"] for task in written]
    assert all(name.startswith(("Write ", "Install programs and write ")) for name in names), names
    checked = [task for task in load(folder / "preflight.yml") or [] if module_of(task).endswith(".assert")]
    assert all(task["name"].startswith("Check ") for task in checked)


@pytest.mark.parametrize("role", ROLES)
def test_registered_results_are_internal_to_the_role(role: str) -> None:
    for path, task in tasks_of(role):
        if "register" in task:
            assert task["register"].startswith(f"{role}__"), f"{path.name}: {task['name']}"
        included = str(task.get("ansible.builtin.include_role", {}).get("name", "")).rpartition(".")[2]
        for name in task.get("vars", {}):
            prefix = f"{included}_" if included else f"{role}__"
            assert name.startswith(prefix), f"{path.name}: {task['name']}"
        for name in task.get("ansible.builtin.set_fact", {}):
            assert name.startswith(f"{role}__") or name == "cacheable", f"{path.name}: {task['name']}"


def known(role: str) -> set[str]:
    """Names that a role may use."""
    found = set(options(role)) | set(load(ANSIBLE / "roles" / role / "vars" / "main.yml") or {}) | MAGIC
    for _, task in tasks_of(role):
        found |= {task["register"]} if "register" in task else set()
        found |= set(task.get("vars", {})) | set(task.get("ansible.builtin.set_fact", {}))
        if "loop_control" in task:
            found |= {task["loop_control"].get("loop_var", "item")}
    return found


@pytest.mark.parametrize("role", ROLES)
def test_every_used_variable_exists(role: str) -> None:
    have = known(role)
    unknown = {}
    for path, text, expression in texts(role):
        used, guarded = names_in(parse(text, expression=expression))
        foreign = {name for name in guarded if name.startswith(tuple(f"{other}_" for other in ROLES))}
        missing = used - have - foreign
        if missing:
            unknown[path.name] = missing
    assert not unknown


@pytest.mark.parametrize("role", ROLES)
def test_every_internal_variable_is_used(role: str) -> None:
    used: set[str] = set()
    for _, text, expression in texts(role):
        used |= names_in(parse(text, expression=expression))[0]
    path = ANSIBLE / "roles" / role / "vars" / "main.yml"
    there = set(load(path) or {})
    # One that is there to be repeated by YAML (`&name`) is used where the file says `*name`.
    blocks = re.split(r"^(?=\w)", path.read_text(encoding="utf-8") if there else "", flags=re.M)
    repeated = {block.split(":")[0] for block in blocks if re.search(r": &\w", block)}
    assert there - repeated <= used


def carriers(role: str) -> set[str]:
    """Variables with a secret in them: secrets, and internal variables made of them."""
    variables = load(ANSIBLE / "roles" / role / "vars" / "main.yml") or {}
    found = set(SECRETS)
    while True:
        more = {
            name
            for name, value in variables.items()
            for _, text in strings(value)
            if names_in(parse(text))[0] & found
        }
        if more <= found:
            return found
        found |= more


def says_lengths_only(task: dict[str, Any], secret: set[str]) -> bool:
    """Whether an assertion's message shows only the length of secrets.

    Of assertions Ansible shows the expression and no value.
    """
    for key, text in strings(task["ansible.builtin.assert"]):
        if key == "that":
            continue
        tree = parse(text)
        measured = {
            id(node.node)
            for node in tree.find_all(nodes.Filter)
            if node.name in ("length", "count") and isinstance(node.node, nodes.Name)
        }
        if any(name.name in secret and id(name) not in measured for name in tree.find_all(nodes.Name)):
            return False
    return True


@pytest.mark.parametrize("role", ROLES)
def test_tasks_with_secrets_log_nothing(role: str) -> None:
    secret = carriers(role)
    for path, task in tasks_of(role):
        used: set[str] = set()
        for key, text in strings(task):
            used |= names_in(parse(text, expression=key in EXPRESSIONS))[0]
        for template in re.findall(r"[\w.-]+\.j2", str(task)):
            found = ANSIBLE / "roles" / role / "templates" / template
            used |= names_in(parse(found.read_text(encoding="utf-8")))[0]
        if used & secret and task.get("no_log") is not True:
            assert module_of(task) == "ansible.builtin.assert", f"{path.name}: {task['name']}"
            assert says_lengths_only(task, secret), f"{path.name}: {task['name']}"


@pytest.mark.parametrize("role", ROLES)
def test_files_with_secrets_are_private_and_in_no_diff(role: str) -> None:
    secret = carriers(role)
    variables = load(ANSIBLE / "roles" / role / "vars" / "main.yml") or {}
    written = [task["gpufleet.rack.files"] for _, task in tasks_of(role) if "gpufleet.rack.files" in task]
    items = [item for one in written for item in one["files"]]
    items += [value for value in variables.values() if isinstance(value, dict) and "path" in value]
    for item in (item for item in items if isinstance(item, dict)):
        texts_of = [text for _, text in strings(item)]
        if "template" in item:
            template = ANSIBLE / "roles" / role / "templates" / item["template"]
            texts_of.append(template.read_text(encoding="utf-8"))
        if any(names_in(parse(text))[0] & secret for text in texts_of):
            assert item["secret"] is True, item["path"]
            assert item["mode"] in ("0400", "0600"), item["path"]


def playbooks() -> dict[str, list[dict[str, Any]]]:
    return {path.name: load(path) for path in sorted((ANSIBLE / "playbooks").glob("*.yml"))}


def test_every_role_is_in_a_playbook_with_its_own_tag() -> None:
    placed = set()
    for name, plays in playbooks().items():
        for play in plays:
            for item in play.get("roles", []):
                role = item["role"].removeprefix("gpufleet.rack.")
                assert role in ROLES, name
                assert role in item.get("tags", [role]), f"{name}: {role}"
                placed.add(role)
    assert set(ROLES) <= placed


def test_plays_gather_no_facts_and_name_their_hosts() -> None:
    groups = set(re.findall(r"^\| `(rack_\w+)`", reference(), re.M))
    assert "rack_gpu_nodes" in groups
    for name, plays in playbooks().items():
        for play in plays:
            if "ansible.builtin.import_playbook" in play:
                continue
            assert play["gather_facts"] is False, f"{name}: {play['name']}"
            for group in re.findall(r"[\w.-]+", play["hosts"]):
                assert group in groups | {"all", "onprem", "cloud_images"}, f"{name}: {group}"


def reference() -> str:
    return (ANSIBLE.parent / "docs" / "reference" / "rack_variables.md").read_text(encoding="utf-8")


def test_site_playbook_runs_all_parts_in_order() -> None:
    parts = [play["ansible.builtin.import_playbook"] for play in load(ANSIBLE / "playbooks" / "site.yml")]
    assert (parts[0], parts[-1]) == ("base.yml", "return_nodes.yml")
    assert parts.index("storage.yml") < parts.index("slurm.yml")
    assert sorted(parts) == [
        *(
            "backup_target.yml",
            "base.yml",
            "bmc.yml",
            "fabric.yml",
            "gpu.yml",
            "kubernetes.yml",
            "monitoring.yml",
        ),
        *("return_nodes.yml", "slurm.yml", "storage.yml"),
    ]


HELD = {
    *("slurmd", "slurmctld", "slurmdbd", "slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin"),
    *("libslurm38", "libpam-slurm-adopt", "libpmi0", "libpmi2-0", "slurm-smd", "slurm-smd-libnss-slurm"),
}


@pytest.mark.parametrize("role", [role for role in ROLES if role.startswith("slurm_") or role == "munge"])
def test_upgrade_of_the_system_leaves_slurm_and_munge_as_they_are(role: str) -> None:
    """`apt-get upgrade` leaves held packages; the order is that of SchedMD's doc/html/upgrades.shtml."""
    variables = load(ANSIBLE / "roles" / role / "vars" / "main.yml")
    (task,) = [
        task for task in load(ANSIBLE / "roles" / role / "tasks" / "install.yml") if "names" in str(task)
    ]
    assert task["gpufleet.rack.packages"]["hold"] == f"{{{{ {role}__held }}}}"
    patterns = variables[f"{role}__held"]

    def held(name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    ours = {name for name in {"munge", "libmunge2"} if role in ("munge", "slurm_cloud_node")}
    ours |= HELD if role != "munge" else set()
    assert {name for name in ours if not held(name)} == set()
    # A name without a pattern would be held also where it is not installed.
    assert all("*" in pattern for pattern in patterns)
    others = ("mariadb-server", "libpmix2", "libpmix2t64", "nfs-common", "python3-boto3", "libc6")
    assert not any(held(name) for name in others)
    if role != "munge":
        (play, *_) = load(ANSIBLE / "playbooks" / "upgrade_slurm.yml")
        assert [each for each in patterns if "munge" not in each] == play["vars"]["upgrade_held"]


def test_upgrade_of_the_system_holds_slurm_first_on_hosts_that_were_configured_before() -> None:
    tasks = load(ANSIBLE / "roles" / "base" / "tasks" / "upgrade.yml")
    used = [next(name for name in task if name.startswith("gpufleet.")) for task in tasks]
    assert used.index("gpufleet.rack.packages") < used.index("gpufleet.rack.os_upgrade")
    held = load(ANSIBLE / "roles" / "base" / "vars" / "main.yml")["base__schedulers"]
    image = load(ANSIBLE / "roles" / "slurm_cloud_node" / "vars" / "main.yml")["slurm_cloud_node__held"]
    assert held == image


def test_hold_of_packages_restarts_nothing() -> None:
    """Hosts that were configured before get the hold while jobs run."""
    for role in ("munge", "slurm_controller", "slurm_database", "slurm_exporter", "slurm_node"):
        text = (ANSIBLE / "roles" / role / "tasks" / "run.yml").read_text(encoding="utf-8")
        assert f"{role}__packages.moved" in text
        assert "packages is changed" not in text


def test_upgrade_of_slurm_holds_its_packages_again() -> None:
    text = (ANSIBLE / "playbooks" / "upgrade_slurm.yml").read_text(encoding="utf-8")
    assert text.count("gpufleet.rack.packages:") == text.count('hold: "{{ upgrade_held }}"') == 4


def test_roles_guard_what_stops_work_and_the_last_play_returns_drained_nodes() -> None:
    (units,) = [
        task["gpufleet.rack.units"]["units"]
        for _, task in tasks_of("kubernetes_base")
        if "gpufleet.rack.units" in task
    ]
    assert [unit["name"] for unit in units if unit.get("guard")] == ["containerd.service"]
    changes = [task.get("gpufleet.rack.packages") for _, task in tasks_of("rdma")]
    assert all(each.get("guard") for each in changes if each)
    (play,) = load(ANSIBLE / "playbooks" / "return_nodes.yml")
    # Also with `--only`, which selects by tags.
    assert all(task["tags"] == ["always"] for task in play["tasks"])
    assert load(ANSIBLE / "playbooks" / "site.yml")[-1]["tags"] == ["always"]


@pytest.mark.parametrize("role", [role for role in ROLES if role != "preflight"])
def test_every_role_measures_under_its_own_name_and_changes_nothing(role: str) -> None:
    tasks = load(ANSIBLE / "roles" / role / "tasks" / "verify.yml")
    assert tasks
    for task in tasks:
        if module_of(task) == "gpufleet.rack.bmc":
            # It is not measured on the host.
            assert role == "bmc" and task["gpufleet.rack.bmc"]["only"] == "measure"
            continue
        if module_of(task) != "gpufleet.rack.measure":
            assert module_of(task).startswith("ansible.builtin.import_tasks"), task["name"]
            continue
        for part in ("commands", "read"):
            named = task["gpufleet.rack.measure"].get(part, {})
            assert isinstance(named, str) or all(name.startswith(f"{role}_") for name in named), task["name"]
        # The action `judge` finds the measurements by it in the middle of an operation.
        assert task["register"] == f"{role}__verified", task["name"]
