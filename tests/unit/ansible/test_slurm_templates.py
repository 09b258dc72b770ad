"""Files of the roles for Slurm: valid for every release from 22.05 to 26.05, and right for the hardware."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gpufleet.plan.rack_slurm import PRIORITIES
from tests.loading import load_source
from tests.programs import find_program
from tests.unit.ansible.gpu_roles import Role

ANSIBLE = Path(__file__).resolve().parents[3] / "ansible"
PLUGINS = ANSIBLE / "plugins"
RELEASES = json.loads(Path(__file__).with_name("slurm_releases.json").read_text())
DGX = {
    "processor_nproc": 224,
    "processor_count": 2,
    "processor_cores": 56,
    "processor_threads_per_core": 2,
    "memtotal_mb": 2063937,
}
INSTANCES: list[dict[str, Any]] = [
    {
        "gpu": gpu,
        "profile": "3g.40gb",
        "files": [
            f"/dev/nvidia{gpu}",
            f"/dev/nvidia-caps/nvidia-cap{number}",
            f"/dev/nvidia-caps/nvidia-cap{number + 1}",
        ],
    }
    for gpu, number in ((0, 21), (0, 12), (5, 696), (5, 687))
]
SETTINGS: dict[str, Any] = {
    "slurm_controller_cluster": "dc1",
    "slurm_controller_hosts": [
        {"name": "ctl01", "address": "10.60.0.11"},
        {"name": "ctl02", "address": "ctl02"},
    ],
    "slurm_controller_state": "nas01:/export/slurm",
    "slurm_controller_database_host": "ctl01",
    "slurm_controller_database_address": "10.60.0.11",
    "slurm_controller_database_port": 6819,
    "slurm_controller_nodes": [
        {"name": f"dgx{number:03}", "address": f"dgx{number:03}.dc1.example.com"} for number in range(1, 4)
    ],
    "slurm_controller_gpu_type": "h100",
    "slurm_controller_gpus": 8,
    "slurm_controller_mig": [],
    "slurm_controller_cloud_groups": [],
    "slurm_controller_suspend_timeout_s": 120,
    "slurm_controller_partitions": [
        {
            "name": "gpu",
            "nodes": "dgx[001-003]",
            "default": True,
            "priority": 1,
            "accounts": [],
            "max_minutes": 0,
        },
        {
            "name": "long",
            "nodes": "dgx[001-002]",
            "default": False,
            "priority": 5,
            "accounts": ["a", "b"],
            "max_minutes": 10080,
        },
    ],
    "slurm_controller_switches": [
        {"name": "su1", "nodes": "dgx[001-002]", "switches": []},
        {"name": "su2", "nodes": "dgx003", "switches": []},
        {"name": "fabric", "nodes": "", "switches": ["su1", "su2"]},
    ],
    "slurm_controller_preemption": "requeue",
    "slurm_controller_billing": {"gpu": 1.0, "cpu": 0.0, "memory_gib": 0.0},
    "slurm_controller_health_check": True,
    "slurm_controller_health_check_interval_s": 300,
    "slurm_controller_reserved_cpus": 4,
    "slurm_controller_reserved_memory_mib": 4096,
    "slurm_controller_takeover_s": 60,
    "slurm_controller_unkillable_step_s": 180,
    "slurm_controller_priority_weights": {
        "age": 1000,
        "fairshare": 10000,
        "job_size": 0,
        "partition": 0,
        "qos": 1000000,
    },
    "slurm_controller_scheduler_parameters": ["bf_continue", "nohold_on_prolog_fail"],
    "slurm_controller__state_folder": "/var/lib/slurm/shared/slurmctld-dc1",
    "slurm_controller__node_names": "dgx001,dgx002,dgx003",
    "slurm_controller__confined": True,
    "slurm_controller__mpi": "pmix",
    "slurm_controller__excludes_states": False,
    "slurm_controller__facts": [DGX, DGX, DGX],
    "slurm_database_cluster": "dc1",
    "slurm_database_host": "ctl01",
    "slurm_database_port": 6819,
    "slurm_database_name": "slurm_acct_db",
    "slurm_database_user": "slurm",
    "slurm_database_password": "a-password-of-a-test",
    "slurm_database_purge_months": 24,
}
CLOUD = {
    "nodes": "use1-sweep-[1-16]",
    "partition": "use1-sweep",
    "cpus": 192,
    "sockets": 1,
    "cores_per_socket": 96,
    "threads_per_core": 2,
    "memory_mib": 1800000,
    "gpu_type": "h100",
    "gpus": 8,
    "accounts": ["research"],
    "max_minutes": 1440,
    "suspend_s": 600,
    "resume_s": 1200,
}
HOSTS = CLOUD | {
    "nodes": "use1-cpu-[1-4]",
    "partition": "use1-cpu",
    "gpus": 0,
    "gpu_type": "",
    "accounts": [],
}
# Every branch of the templates.
VARIANTS: dict[str, dict[str, Any]] = {
    "all": {},
    "plain": {
        "slurm_controller_preemption": "none",
        "slurm_controller_switches": [],
        "slurm_controller_health_check": False,
        "slurm_controller_scheduler_parameters": [],
        "slurm_controller_gpus": 1,
        "slurm_controller__mpi": "",
        "slurm_database_purge_months": 0,
    },
    "mig": {
        "slurm_controller_mig": [{"nodes": ["dgx002"], "gpus": [0, 5], "profiles": {"3g.40gb": 2}}],
        "slurm_controller__facts": [DGX, DGX | {"gpufleet_mig": INSTANCES}, DGX],
    },
    "cloud": {"slurm_controller_cloud_groups": [CLOUD, HOSTS]},
    "container": {"slurm_controller__confined": False, "slurm_controller_preemption": "cancel"},
}


def load(path: Path) -> Any:
    return load_source(path, f"rack_{path.parent.name}_{path.stem}")


filters = load(PLUGINS / "filter" / "slurm.py")
slurm_nodes = filters.slurm_nodes


def render(file: str, **changes: Any) -> str:
    """A template of the roles, with settings as in Ansible."""
    role = "slurm_database" if file.startswith("slurmdbd") else "slurm_controller"
    environment = Environment(
        loader=FileSystemLoader(ANSIBLE / "roles" / role / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    for name, function in filters.FilterModule().filters().items():
        environment.filters[f"gpufleet.rack.{name}"] = function
    return environment.get_template(f"{file}.j2").render(SETTINGS | changes)


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def keys(line: str) -> list[str]:
    """Names of options in a line; values may hold what looks like one."""
    return re.findall(r"(?<![\w,=])(\w+)=", re.sub(r'"[^"]*"', "", line))


@pytest.mark.parametrize(
    ("limits", "parameters", "expected"),
    [
        ((60,), [], "bf_window=1440,bf_resolution=60"),
        ((1440, 10080), ["bf_continue"], "bf_continue,bf_window=10080,bf_resolution=420"),
        ((1440, 0), [], "bf_window=43200,bf_resolution=600"),
        ((99999,), [], "bf_window=43200,bf_resolution=600"),
        ((10080,), ["bf_window=2880"], "bf_window=2880"),
        ((10080,), ["bf_resolution=60"], "bf_resolution=60,bf_window=10080"),
    ],
)
def test_backfill_looks_as_far_as_the_longest_time_limit(
    limits: tuple[int, ...], parameters: list[str], expected: str
) -> None:
    partition = SETTINGS["slurm_controller_partitions"][0]
    partitions = [partition | {"max_minutes": limit} for limit in limits]
    text = render(
        "slurm.conf",
        slurm_controller_partitions=partitions,
        slurm_controller_scheduler_parameters=parameters,
    )
    assert re.findall(r"^SchedulerParameters=(.*)$", text, re.MULTILINE) == [expected]


def test_controllers_start_one_after_the_other() -> None:
    """The first one writes the cluster's name to the shared state; the others compare theirs with it."""
    start, _ = yaml.safe_load((ANSIBLE / "roles/slurm_controller/tasks/run.yml").read_text())
    assert [unit["name"] for unit in start["gpufleet.rack.units"]["units"]][1] == "slurmctld.service"
    assert start["throttle"] == 1


def test_share_of_a_team_outweighs_the_age_of_its_jobs_and_no_qos() -> None:
    defaults = yaml.safe_load((ANSIBLE / "roles/slurm_controller/defaults/main.yml").read_text())
    weights = defaults["slurm_controller_priority_weights"]
    assert weights["fairshare"] >= 10 * max(weights["age"], weights["job_size"], weights["partition"])
    # A factor is the QOS's priority through the highest one.
    steps = sorted(PRIORITIES.values())
    gap = min(after - before for before, after in pairwise(steps)) / max(steps) * weights["qos"]
    assert gap > weights["fairshare"] + weights["age"]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["slurm.conf", "gres.conf", "cgroup.conf", "topology.conf", "slurmdbd.conf"])
def test_every_release_reads_every_option(name: str, variant: str) -> None:
    read = {key: {option.lower() for option in names} for key, names in RELEASES["read_by_all"].items()}
    found = [line for line in lines(render(name, **VARIANTS[variant])) if not line.startswith("Include ")]
    for line in found:
        first, *others = keys(line)
        named = first in ("NodeName", "PartitionName")
        # In gres.conf a line may begin with its nodes, and goes on as every other.
        block = first if named and name == "slurm.conf" else name
        assert named or first.lower() in read[name], line
        assert {key.lower() for key in others} <= read[block], line
    assert found or (name == "topology.conf" and variant == "plain")


def test_option_list_marks_options_that_releases_removed() -> None:
    removed = {option for names in RELEASES["removed"]["slurm.conf"].values() for option in names}
    assert {"AccountingStorageUser", "JobCredentialPrivateKey", "SlurmctldPlugstack"} <= removed
    assert not removed & set(RELEASES["read_by_all"]["slurm.conf"])
    assert "ConstrainKmemSpace" not in RELEASES["read_by_all"]["cgroup.conf"]
    assert len(RELEASES["read_by_all"]["slurm.conf"]) > 200


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_plugin_exists_in_every_release(variant: str) -> None:
    text = render("slurm.conf", **VARIANTS[variant])
    values = re.findall(r"^\w+(?:Type|Plugin)=(\S+/\S+)$", text, re.MULTILINE)
    named = [value.split("/") for value in ",".join(values).split(",")]
    assert {"select", "proctrack", "priority", "accounting_storage", "auth"} <= {kind for kind, _ in named}
    for kind, plugin in named:
        assert plugin in RELEASES["plugins_of_all"][kind], f"{kind}/{plugin}"


def test_cgroups_confine_jobs_if_they_are_available() -> None:
    text = render("slurm.conf")
    assert "ProctrackType=proctrack/cgroup\nTaskPlugin=task/affinity,task/cgroup\n" in text
    text = render("slurm.conf", slurm_controller__confined=False)
    assert "ProctrackType=proctrack/linuxproc\n" in text
    assert "TaskPlugin" not in text and "cgroup" not in text
    assert "ConstrainDevices=yes\n" in render("cgroup.conf")
    assert lines(render("cgroup.conf", slurm_controller__confined=False)) == ["CgroupPlugin=cgroup/v1"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_job_has_a_step_that_takes_in_ssh_logins(variant: str) -> None:
    assert "PrologFlags=Contain" in lines(render("slurm.conf", **VARIANTS[variant]))


def test_settings_of_the_site_are_read_last_and_reach_nodes() -> None:
    # Slurm sends only files without a folder in their name (slurm.schedmd.com/configless_slurm.html).
    assert lines(render("slurm.conf"))[-1] == "Include site.conf"


def test_pmix_is_the_default_only_if_all_hosts_have_it() -> None:
    assert "MpiDefault=pmix" in lines(render("slurm.conf"))
    assert "MpiDefault" not in render("slurm.conf", slurm_controller__mpi="")


def test_the_first_controller_is_primary_and_all_have_their_addresses() -> None:
    text = render("slurm.conf")
    assert "SlurmctldHost=ctl01(10.60.0.11)\nSlurmctldHost=ctl02\n" in text


def test_health_checks_are_configured_only_on_request() -> None:
    text = render("slurm.conf")
    for line in (
        "Prolog=/usr/lib/gpufleet/prolog",
        "Epilog=/usr/lib/gpufleet/epilog",
        "HealthCheckProgram=/usr/lib/gpufleet/health-check",
    ):
        assert f"{line}\n" in text
    text = render("slurm.conf", slurm_controller_health_check=False)
    assert "Prolog=" not in text and "Epilog=" not in text and "HealthCheck" not in text


def test_gpus_are_listed_by_device_file() -> None:
    assert lines(render("gres.conf")) == ["Name=gpu Type=h100 File=/dev/nvidia[0-7]"]
    assert lines(render("gres.conf", slurm_controller_gpus=1)) == ["Name=gpu Type=h100 File=/dev/nvidia0"]


H100 = DGX | {"gpufleet_numa_nodes": 2, "gpufleet_gpu_numa": [0, 0, 0, 0, 1, 1, 1, 1]}
# AMD processors with four NUMA nodes in each socket.
A100 = DGX | {
    "processor_nproc": 256,
    "processor_cores": 64,
    "gpufleet_numa_nodes": 8,
    "gpufleet_gpu_numa": [3, 3, 1, 1, 7, 7, 5, 5],
}


def test_gpus_have_the_cores_of_their_socket() -> None:
    assert lines(render("gres.conf", slurm_controller__facts=[H100] * 3)) == [
        "Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-55",
        "Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=56-111",
    ]
    # An unreachable node, or one with a missing GPU, is like the others.
    assert lines(
        render("gres.conf", slurm_controller__facts=[H100, {}, H100 | {"gpufleet_gpu_numa": [0]}])
    ) == [
        "Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-55",
        "Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=56-111",
    ]
    assert lines(render("gres.conf", slurm_controller__facts=[{}, A100, A100])) == [
        "Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-63",
        "Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=64-127",
    ]


def test_nodes_that_differ_have_their_own_lines() -> None:
    found = lines(render("gres.conf", slurm_controller__facts=[H100, {}, A100]))
    assert found == [
        "NodeName=dgx001 Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-55",
        "NodeName=dgx001 Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=56-111",
        "NodeName=dgx003 Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-63",
        "NodeName=dgx003 Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=64-127",
        "NodeName=dgx002 Name=gpu Type=h100 File=/dev/nvidia[0-7]",
    ]


@pytest.mark.parametrize(
    "strange",
    [
        {"gpufleet_gpu_numa": [0] * 7},
        {"gpufleet_gpu_numa": [-1] * 8},
        {"gpufleet_numa_nodes": 1},
        {"gpufleet_numa_nodes": 3},
        {"processor_count": 1},
    ],
)
def test_cores_are_left_out_if_the_facts_are_inconsistent(strange: dict[str, Any]) -> None:
    found = lines(render("gres.conf", slurm_controller__facts=[H100 | strange] * 3))
    assert found == ["Name=gpu Type=h100 File=/dev/nvidia[0-7]"]


def test_partitions_have_allowed_accounts_and_time_limits() -> None:
    found = [line for line in lines(render("slurm.conf")) if line.startswith("PartitionName=")]
    assert found[0].endswith('TRESBillingWeights="CPU=0.0,Mem=0.0G,GRES/gpu=1.0"')
    assert "DefCpuPerGPU=26 " in found[0]
    assert found[1].endswith("Default=YES PriorityTier=1 MaxTime=INFINITE AllowAccounts=ALL")
    assert found[2].endswith("Default=NO PriorityTier=5 MaxTime=10080 AllowAccounts=a,b")


def test_topology_is_a_tree_or_absent() -> None:
    assert lines(render("topology.conf")) == [
        "SwitchName=su1 Nodes=dgx[001-002]",
        "SwitchName=su2 Nodes=dgx003",
        "SwitchName=fabric Switches=su1,su2",
    ]
    assert "TopologyPlugin=topology/tree\n" in render("slurm.conf")
    assert "Topology" not in render("slurm.conf", slurm_controller_switches=[])


def test_cloud_nodes_are_launched_for_their_partition_and_never_share_a_switch_with_racks() -> None:
    found = lines(render("slurm.conf", **VARIANTS["cloud"]))
    hardware = "CPUs=192 Sockets=1 CoresPerSocket=96 ThreadsPerCore=2 RealMemory=1800000"
    times = "ResumeTimeout=1200 SuspendTime=600"
    sweep = "PartitionName=use1-sweep Nodes=use1-sweep-[1-16] Default=NO DefCpuPerGPU=24 DefMemPerCPU=9375"
    cpu = "PartitionName=use1-cpu Nodes=use1-cpu-[1-4] Default=NO DefMemPerCPU=9375"
    for line in (
        "SlurmctldParameters=enable_configless,idle_on_node_suspend,node_reg_mem_percent=90",
        "ResumeProgram=/usr/lib/gpufleet/cloud-resume",
        "SuspendProgram=/usr/lib/gpufleet/cloud-suspend",
        "ResumeRate=0",
        f"NodeName=use1-sweep-[1-16] {hardware} Gres=gpu:h100:8 Feature=cloud State=CLOUD",
        f"NodeName=use1-cpu-[1-4] {hardware} Feature=cloud State=CLOUD",
        f"{sweep} MaxTime=1440 AllowAccounts=research {times}",
        f"{cpu} MaxTime=1440 AllowAccounts=ALL {times}",
    ):
        assert line in found
    # Hosts of racks have no SuspendTime: Slurm never powers them down.
    assert all("SuspendTime=" not in line for line in found if "dgx" in line)
    assert lines(render("topology.conf", **VARIANTS["cloud"]))[-2:] == [
        "SwitchName=use1-sweep Nodes=use1-sweep-[1-16]",
        "SwitchName=use1-cpu Nodes=use1-cpu-[1-4]",
    ]
    assert lines(render("gres.conf", **VARIANTS["cloud"])) == [
        "NodeName=dgx001,dgx002,dgx003 Name=gpu Type=h100 File=/dev/nvidia[0-7]",
        "NodeName=use1-sweep-[1-16] Name=gpu Type=h100 File=/dev/nvidia[0-7]",
    ]


def test_drained_cloud_nodes_keep_their_instance_where_slurm_can() -> None:
    """SuspendExcStates is new in 23.02 (SchedMD/slurm, CHANGELOG/slurm-23.02.md)."""
    new = render("slurm.conf", **VARIANTS["cloud"], slurm_controller__excludes_states=True)
    # Not DOWN: instances that hang would be paid for without end.
    assert "SuspendExcStates=DRAIN" in lines(new)
    assert "SuspendExcStates" not in render("slurm.conf", **VARIANTS["cloud"])


@pytest.mark.parametrize(
    ("systems", "excluded"),
    [
        (("ubuntu_24_04", "dgx_os_6"), True),
        (("ubuntu_24_04", "debian_12"), False),
        # Hosts that no run has reached yet.
        ((None, "dgx_os_7"), True),
        ((None, None), False),
    ],
)
def test_no_host_of_the_cluster_has_a_slurm_that_refuses_excluded_states(
    systems: tuple[str | None, str | None], excluded: bool
) -> None:
    known = [{"gpufleet_system": each} if each else {} for each in systems]
    role = Role(
        "slurm_controller",
        slurm_controller_hosts=[{"name": "ctl01"}],
        slurm_controller_nodes=[{"name": "dgx01"}],
        slurm_controller_login_hosts=[],
        hostvars={"ctl01": {"ansible_facts": known[0]}, "dgx01": {"ansible_facts": known[1]}},
    )
    assert role.value("slurm_controller__excludes_states") is excluded


def test_cluster_without_cloud_nodes_has_no_settings_for_them() -> None:
    text = render("slurm.conf", slurm_controller__excludes_states=True)
    for word in ("ResumeProgram", "Suspend", "PrivateData", "TreeWidth", "nss_slurm", "cloud"):
        assert word not in text


SPLIT = VARIANTS["mig"]


def test_mig_instances_have_their_own_types_and_whole_gpus_keep_theirs() -> None:
    text = render("slurm.conf", **SPLIT)
    assert [line.split("Gres=")[1] for line in lines(text) if "Gres=" in line] == [
        "gpu:h100:8 State=UNKNOWN",
        "gpu:h100:6,gpu:3g.40gb:4 State=UNKNOWN",
    ]
    partitions = [line for line in lines(text) if line.startswith("PartitionName=")]
    # 220 processors for 10 GPUs and instances, in whole cores.
    assert "DefCpuPerGPU" not in partitions[0]
    assert all(" DefCpuPerGPU=22 " in line for line in partitions[1:])


def test_every_gres_line_of_a_site_with_mig_names_its_nodes() -> None:
    assert lines(render("gres.conf", **SPLIT)) == [
        "NodeName=dgx001,dgx003 Name=gpu Type=h100 File=/dev/nvidia[0-7]",
        "NodeName=dgx002 Name=gpu Type=h100 File=/dev/nvidia[1-4]",
        "NodeName=dgx002 Name=gpu Type=h100 File=/dev/nvidia[6-7]",
        *(
            f"NodeName=dgx002 Name=gpu Type=3g.40gb MultipleFiles={','.join(item['files'])}"
            for item in INSTANCES
        ),
    ]


@pytest.mark.parametrize("reported", [None, INSTANCES[:3], [INSTANCES[0] | {"profile": "4g.40gb"}] * 4])
def test_node_without_its_expected_instances_offers_none(reported: Any) -> None:
    facts = [DGX, DGX if reported is None else DGX | {"gpufleet_mig": reported}, DGX]
    text = render("gres.conf", **SPLIT | {"slurm_controller__facts": facts})
    assert "MultipleFiles" not in text
    # slurm.conf still has them: Slurm drains a node that has fewer than it says.
    assert "gpu:3g.40gb:4" in render("slurm.conf", **SPLIT | {"slurm_controller__facts": facts})


def test_nodes_with_the_same_instances_share_lines() -> None:
    facts = [DGX | {"gpufleet_mig": INSTANCES}] * 3
    mig = [SPLIT["slurm_controller_mig"][0] | {"nodes": ["dgx001", "dgx002", "dgx003"]}]
    found = lines(render("gres.conf", slurm_controller_mig=mig, slurm_controller__facts=facts))
    assert len(found) == 6
    assert all(line.startswith("NodeName=dgx001,dgx002,dgx003 ") for line in found)


@pytest.mark.fresh
def test_slurmd_finds_mig_instances_and_whole_gpus(tmp_path: Path) -> None:
    here = socket.gethostname().partition(".")[0]
    reported = [item | {"files": [f"{tmp_path}{name}" for name in item["files"]]} for item in INSTANCES]
    for name in {name for item in reported for name in item["files"]} | {
        f"{tmp_path}/dev/nvidia{index}" for index in range(8)
    }:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    changes = {
        "slurm_controller_nodes": [{"name": "other", "address": "other"}, {"name": here, "address": here}],
        "slurm_controller_mig": [SPLIT["slurm_controller_mig"][0] | {"nodes": [here]}],
        "slurm_controller__facts": [DGX, DGX | {"gpufleet_mig": reported}],
    }
    gres = render("gres.conf", **changes).replace("/dev/nvidia[", f"{tmp_path}/dev/nvidia[")
    (tmp_path / "gres.conf").write_text(gres)
    node = next(line for line in lines(render("slurm.conf", **changes)) if "gpu:3g.40gb" in line)
    (tmp_path / "slurm.conf").write_text(
        f"ClusterName=lab\nSlurmctldHost={here}\nGresTypes=gpu\nSelectType=select/cons_tres\n"
        # Slurm 24.11 asks for a credential before it looks for devices, and no munged runs here.
        f"AuthType=auth/none\nProctrackType=proctrack/linuxproc\nSlurmdSpoolDir={tmp_path}/spool\n{node}\nNodeName={here}\n"
        f"PartitionName=gpu Nodes={here}\n"
    )
    done = subprocess.run(
        [find_program("slurmd"), "-G", "-f", str(tmp_path / "slurm.conf")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    found = re.findall(r"Name=gpu Type=(\S+) Count=(\d+) .*? File=(\S+)", done.stderr + done.stdout)
    # Those of one line are counted together; every instance is one by itself, with all its files.
    assert sorted(found) == sorted(
        [("3g.40gb", "1", ",".join(item["files"])) for item in reported]
        + [("h100", "4", f"{tmp_path}/dev/nvidia[1-4]"), ("h100", "2", f"{tmp_path}/dev/nvidia[6-7]")]
    ), done.stderr


def test_host_lists_are_parsed_as_the_inventory_writes_them() -> None:
    assert filters.unfolded("dgx[008-010,012],login1,a[1-2]-x") == [
        *("dgx008", "dgx009", "dgx010", "dgx012", "login1", "a1-x", "a2-x")
    ]


NODES = SETTINGS["slurm_controller_nodes"]


def test_identical_nodes_share_a_hardware_line() -> None:
    (group,) = slurm_nodes(NODES, [DGX, DGX, DGX])
    assert group["hardware"] == ("CPUs=224 Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 RealMemory=2063360")
    assert [node["name"] for node in group["nodes"]] == ["dgx001", "dgx002", "dgx003"]


def test_memory_is_rounded_down_so_that_a_new_kernel_drains_no_node() -> None:
    (group,) = slurm_nodes(NODES[:1], [DGX | {"memtotal_mb": 24105}])
    assert group["hardware"].endswith("RealMemory=23552")
    (group,) = slurm_nodes(NODES[:1], [DGX | {"memtotal_mb": 24105 - 40}])
    assert group["hardware"].endswith("RealMemory=23552")


def test_unreached_node_is_assumed_the_smallest_known() -> None:
    small = DGX | {"memtotal_mb": 1031000}
    groups = slurm_nodes(NODES, [DGX, {}, small])
    assert [[node["name"] for node in group["nodes"]] for group in groups] == [
        ["dgx001"],
        ["dgx002", "dgx003"],
    ]


def test_missing_facts_of_all_nodes_are_refused_with_the_command_to_run() -> None:
    with pytest.raises(AnsibleFilterError, match=r"3 nodes \(dgx001\.\.\.\) are unknown.*gpufleet configure"):
        slurm_nodes(NODES, [{}, {}, {}])


def test_reserved_resources_are_taken_from_jobs_in_whole_cores() -> None:
    (group,) = slurm_nodes(NODES[:1], [DGX], reserved_cpus=3, reserved_memory_mib=8192)
    assert group["hardware"].endswith("RealMemory=2063360 MemSpecLimit=8192 CoreSpecCount=2")
    assert group["cpus"] == 220
    assert group["memory_mib_per_cpu"] == (2063360 - 8192) // 220


def test_reserved_memory_is_not_offered_without_cgroups() -> None:
    (group,) = slurm_nodes(NODES[:1], [DGX], reserved_cpus=3, reserved_memory_mib=8192, confined=False)
    assert group["hardware"].endswith(f"RealMemory={2063360 - 8192}")
    assert "Spec" not in group["hardware"]
    assert group["cpus"] == 224


def test_each_gpu_has_whole_cores_so_that_one_job_per_gpu_fits() -> None:
    (group,) = slurm_nodes(NODES[:1], [DGX], gpus=8, reserved_cpus=4)
    assert (group["cpus"], group["cpus_per_gpu"]) == (220, 26)
    (group,) = slurm_nodes(NODES[:1], [{"processor_nproc": 2, "memtotal_mb": 24105}], gpus=8)
    assert group["cpus_per_gpu"] == 0
    assert "DefCpuPerGPU" not in render(
        "slurm.conf",
        slurm_controller__facts=[{"processor_nproc": 2, "memtotal_mb": 24105}] * 3,
        slurm_controller_reserved_cpus=0,
    )


def test_node_with_all_processors_reserved_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="none is left for jobs"):
        slurm_nodes(NODES[:1], [DGX], reserved_cpus=224)


def test_inconsistent_topology_counts_only_processors() -> None:
    (group,) = slurm_nodes(NODES[:1], [DGX | {"processor_nproc": 200}])
    assert group["hardware"].startswith("CPUs=200 RealMemory=")
