"""User data and NVMe drives that the checks refuse, and buckets of teams."""

from __future__ import annotations

import pytest

from gpufleet.plan.names import PULUMI_SUFFIX, TEAM_DATA_SUFFIX
from gpufleet.user_data import EKS_BYTES, MOST_BYTES
from tests.unit.checks.fleets import Judge
from tests.unit.checks.test_networks import SLURM

GROUP = "cloud.0.node_groups.0"
FIELD = "cloud[0].node_groups[0]"
TEAM = "cloud.0.kubernetes.teams.0"
NODE_CONFIG = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}\n"


def script(size: int) -> str:
    return "#!/bin/sh\n" + "#" * size + "\n"


def test_user_data_leaves_room_for_the_part_that_joins_the_cluster(judge: Judge) -> None:
    finding = judge({f"{GROUP}.user_data": [script(MOST_BYTES - EKS_BYTES)]}).only("user-data-fits")
    assert finding.field == f"{FIELD}.user_data"
    assert "needs 4,096 more" in finding.message
    assert judge({f"{GROUP}.user_data": [script(MOST_BYTES - EKS_BYTES - 1000)]}).rules == set()


def test_user_data_may_fill_its_room_exactly(judge: Judge) -> None:
    room = MOST_BYTES - EKS_BYTES
    written = str(judge({f"{GROUP}.user_data": [script(room)]}).only("user-data-fits").value)
    most = 2 * room - int(written.removesuffix(" bytes").replace(",", ""))
    assert judge({f"{GROUP}.user_data": [script(most)]}).rules == set()
    judge({f"{GROUP}.user_data": [script(most + 1)]}).only("user-data-fits")


def test_slurm_nodes_have_the_whole_limit_with_the_mount_of_their_drives(judge: Judge) -> None:
    parts = [script(8_000), script(4_000)]
    assert "user-data-fits" not in judge({**SLURM, f"{GROUP}.user_data": parts}).rules
    big = [script(8_000), script(7_000)]
    (finding,) = judge({**SLURM, f"{GROUP}.user_data": big}).of("user-data-fits")
    assert "more to join" not in finding.message
    unused = {**SLURM, f"{GROUP}.user_data": big, f"{GROUP}.local_nvme": {"use": "none"}}
    assert "user-data-fits" not in judge(unused).rules


def test_node_config_is_for_eks_only(judge: Judge) -> None:
    assert judge({f"{GROUP}.user_data": [NODE_CONFIG]}).rules == set()
    (finding,) = judge({**SLURM, f"{GROUP}.user_data": [NODE_CONFIG]}).of("user-data-node-config")
    assert finding.field == f"{FIELD}.user_data[0]"
    assert judge({**SLURM, f"{GROUP}.user_data": [script(10)]}).of("user-data-node-config") == []


@pytest.mark.parametrize(
    "line",
    [
        "export AWS_ACCESS_KEY_ID=" + "AKIA" + "IOSFODNN7EXAMPLE",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "curl -H 'Authorization: Bearer hf_" + "a" * 34 + "'",
        "DB_PASSWORD='correct-horse-battery'",
        "echo 'api_key: 0123456789abcdef' > /etc/x",
        "WANDB_API_KEY=0123456789abcdef0123",
        "git clone https://x:ghp_" + "a" * 36 + "@github.com/x/y",
    ],
)
def test_credential_in_user_data_is_refused_and_not_printed(judge: Judge, line: str) -> None:
    finding = judge({f"{GROUP}.user_data": [f"#!/bin/sh\ntrue\n{line}\n"]}).only("user-data-secret")
    assert finding.field == f"{FIELD}.user_data[0]"
    assert finding.value == "line 3"
    assert line not in f"{finding.message}{finding.remedy}{finding.value}"


@pytest.mark.parametrize(
    "line",
    [
        'TOKEN=$(curl -sX PUT http://169.254.169.254/latest/api/token -H "X-token-ttl-seconds: 60")',
        'DB_PASSWORD="$(aws secretsmanager get-secret-value --secret-id db --query SecretString)"',
        "AWS_WEB_IDENTITY_TOKEN_FILE=/var/run/secrets/token",
        "# the API takes a token: required",
        "export HF_TOKEN=$TOKEN",
        "systemctl enable --now chronyd  # no password: login is by key",
    ],
)
def test_secret_that_is_fetched_at_launch_passes(judge: Judge, line: str) -> None:
    assert judge({f"{GROUP}.user_data": [f"#!/bin/sh\n{line}\n"]}).rules == set()


def test_drives_that_a_type_does_not_have_cannot_be_striped(judge: Judge) -> None:
    finding = judge(
        {
            "cloud.0.node_groups.3.instance_types": ["g5g.2xlarge"],
            "cloud.0.node_groups.3.local_nvme": {"use": "raid0"},
        }
    ).of("local-nvme")
    assert [each.field for each in finding] == ["cloud[0].node_groups[3].local_nvme.use"]
    assert finding[0].message.startswith("g5g.2xlarge of ") and "has no NVMe drives" in finding[0].message
    assert judge({f"{GROUP}.local_nvme": {"use": "raid0"}}).rules == set()
    assert judge({"cloud.0.node_groups.3.instance_types": ["g5g.2xlarge"]}).of("local-nvme") == []


def test_mount_of_drives_is_for_slurm_nodes_that_use_them(judge: Judge) -> None:
    assert judge({f"{GROUP}.local_nvme": {"mount": "/fast"}}).only("local-nvme").field.endswith("mount")
    unused = judge({**SLURM, f"{GROUP}.local_nvme": {"use": "none", "mount": "/fast"}})
    assert unused.of("local-nvme")
    assert "local-nvme" not in judge({**SLURM, f"{GROUP}.local_nvme": {"use": "none"}}).rules
    assert "local-nvme" not in judge({**SLURM, f"{GROUP}.local_nvme": {"mount": "/fast"}}).rules


@pytest.mark.parametrize(
    ("mount", "rule"), [("/usr/local", "mount-reserved"), ("/fsx/scratch", "mount-overlap")]
)
def test_drives_are_not_mounted_on_folders_that_are_taken(judge: Judge, mount: str, rule: str) -> None:
    assert rule in judge({**SLURM, f"{GROUP}.local_nvme": {"mount": mount}}).rules


def test_team_reaches_buckets_of_its_site_once_each(judge: Judge) -> None:
    assert judge({f"{TEAM}.buckets": [{"storage": "data"}]}).rules == set()
    unknown = judge({f"{TEAM}.buckets": [{"storage": "date"}]}).only("team-bucket")
    assert "did you mean 'data'" in unknown.remedy
    assert judge({f"{TEAM}.buckets": [{"storage": "scratch"}]}).only("team-bucket").value == "scratch"
    twice = judge({f"{TEAM}.buckets": [{"storage": "data"}, {"storage": "data", "access": "read"}]})
    assert twice.only("team-bucket").field == "cloud[0].kubernetes.teams[0].buckets[1].storage"


def test_team_mounts_file_systems_of_its_site_once(judge: Judge) -> None:
    field = f"{TEAM}.file_systems"
    assert judge({field: [{"storage": "scratch", "access": "read"}]}).rules == set()
    unknown = judge({field: [{"storage": "scratsh"}]}).only("team-file-system")
    assert unknown.remedy.startswith("did you mean 'scratch'?")
    assert judge({field: [{"storage": "data"}]}).only("team-file-system").value == "data"
    twice = judge({field: [{"storage": "scratch"}, {"storage": "scratch", "access": "read"}]})
    assert twice.only("team-file-system").field == "cloud[0].kubernetes.teams[0].file_systems[1].storage"


def test_claims_of_a_site_make_no_two_volumes_of_one_name(judge: Judge) -> None:
    lustre = {"deployment": "scratch-2", "capacity": "1200 GiB", "zone": "us-east-1a"}
    store = {"cloud.0.storage.+": {"name": "data-shared", "mount": "/fsx/data-shared", "lustre": lustre}}
    mounted = {f"{TEAM}.buckets": [{"storage": "data", "mount": True}]}
    assert judge({**store, **mounted}).rules == set()
    both = {**store, **mounted, f"{TEAM}.file_systems": [{"storage": "data-shared"}]}
    finding = judge(both).only("team-claim")
    assert finding.field == "cloud[0].kubernetes.teams[0].buckets[0].mount"
    assert "'research-data-shared'" in finding.message
    assert judge({**both, f"{TEAM}.buckets": [{"storage": "data"}]}).rules == set()
    assert judge({**both, "cloud.0.storage.1.name": "other"}).rules == {"team-bucket"}


def test_volumes_of_two_teams_have_names_of_their_own(judge: Judge) -> None:
    lustre = {"deployment": "scratch-2", "capacity": "1200 GiB", "zone": "us-east-1a"}
    changes = {
        "cloud.0.storage.+": {"name": "big-data", "mount": "/fsx/big-data", "lustre": lustre},
        f"{TEAM}.file_systems": [{"storage": "big-data"}],
    }
    other = {"name": "research-big", "gpus": 8, "buckets": [{"storage": "data"}]}
    assert judge({**changes, "cloud.0.kubernetes.teams.+": other}).rules == set()
    other["buckets"] = [{"storage": "data", "mount": True}]
    (finding,) = judge({**changes, "cloud.0.kubernetes.teams.+": other}).of("team-claim")
    assert finding.field == "cloud[0].kubernetes.teams[1].buckets[0].mount"
    assert "claim 'big-data' of team 'research'" in finding.message


def test_mounted_bucket_is_one_of_the_site(judge: Judge) -> None:
    bucket = {"storage": "scratch", "mount": True}
    assert judge({f"{TEAM}.buckets": [bucket]}).only("team-bucket").value == "scratch"
    twice = judge({f"{TEAM}.buckets": [{"storage": "data", "mount": True}] * 2})
    assert twice.only("team-bucket").field.endswith("buckets[1].storage")


def test_team_with_the_name_of_the_shared_folder_gets_no_buckets(judge: Judge) -> None:
    team = {"name": "shared", "gpus": 8, "buckets": [{"storage": "data"}]}
    finding = judge({"cloud.0.kubernetes.teams.+": team}).only("team-bucket")
    assert finding.field == "cloud[0].kubernetes.teams[1].name"
    assert judge({"cloud.0.kubernetes.teams.+": {**team, "buckets": []}}).rules == set()


def test_role_of_a_team_with_a_long_name_is_refused_before_aws_does(judge: Judge) -> None:
    team = {"name": "t" * 40, "gpus": 8, "buckets": [{"storage": "data"}]}
    assert judge({"cloud.0.kubernetes.teams.+": team}).only("name-too-long").field.endswith("teams[1].name")
    assert judge({"cloud.0.kubernetes.teams.+": {**team, "buckets": []}}).rules == set()
    longest = 64 - len("atlas-test-use1-") - len(TEAM_DATA_SUFFIX) - PULUMI_SUFFIX
    for length, rules in ((longest, set()), (longest + 1, {"name-too-long"})):
        assert judge({"cloud.0.kubernetes.teams.+": {**team, "name": "t" * length}}).rules == rules
