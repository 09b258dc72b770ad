"""The stack program as an engine runs it: its configuration, and messages for bad input."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pulumi
import pytest

from gpufleet.containment import GIVEN_FLEET_FILE
from gpufleet.eks_access.identity import AwsIdentity
from gpufleet.errors import InputError
from gpufleet.stacks.program import run
from gpufleet.stacks.settings import load_settings
from tests.unit.components.recording import Recording, record

ROOT = Path(__file__).resolve().parents[3]


def settings(monkeypatch: pytest.MonkeyPatch, **config: str) -> Any:
    values = {key if ":" in key else f"gpufleet:{key}": value for key, value in config.items()}
    monkeypatch.setattr(pulumi.Config, "_get", _reader(values))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    return load_settings(ROOT)


def _reader(values: dict[str, str]) -> Any:
    def get(self: pulumi.Config, key: str, *_: Any, **__: Any) -> str | None:
        return values.get(f"{self.name}:{key}" if ":" not in key else key)

    return get


def program(root: Path, monkeypatch: pytest.MonkeyPatch, **config: str) -> Recording:
    values = {key if ":" in key else f"gpufleet:{key}": value for key, value in config.items()}
    monkeypatch.setattr(pulumi.Config, "_get", _reader(values))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    return record(lambda: run(root))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    shutil.copytree(
        ROOT / "stacks", tmp_path / "stacks", ignore=shutil.ignore_patterns("*.py", "__pycache__")
    )
    return tmp_path


def test_real_account_buys_no_block_and_protects_storage_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = settings(monkeypatch)
    assert found.cloud == "aws"
    assert found.allow_upfront == "0"
    assert found.protect
    assert found.aws_provider == {}
    assert found.aws_client == {}


ROLES = '[{"roleArn": "arn:aws:iam::123456789012:role/deploy", "sessionName": "fleet"}]'
ACCOUNT = {"aws:profile": "training", "aws:allowedAccountIds": '["123456789012", 12345678901]'}


def test_every_provider_and_lookup_uses_the_account_of_the_stack(
    checkout: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = program(checkout, monkeypatch, cloud="aws", fleetFile="sandbox", **ACCOUNT)
    providers = built.of("pulumi:providers:aws")
    assert len(providers) >= 2
    for provider in providers:
        assert provider.inputs["profile"] == "training"
        assert json.loads(provider.inputs["allowedAccountIds"]) == ["123456789012", "012345678901"]
        assert "assumeRoles" not in provider.inputs
    assert built.one("CapacityBlockOffering").inputs["client"] == {"profile": "training"}


def test_role_to_assume_reaches_the_provider_and_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings(monkeypatch, **{"aws:assumeRoles": ROLES, "aws:profile": "training"})
    (role,) = found.aws_provider["assume_roles"]
    assert found.identity.profile == "training"
    assert found.identity.roles == (
        {"role_arn": "arn:aws:iam::123456789012:role/deploy", "session_name": "fleet"},
    )
    assert role.role_arn == "arn:aws:iam::123456789012:role/deploy"
    assert role.session_name == "fleet"


def test_block_lookup_assumes_the_role_of_the_provider(
    checkout: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(pulumi.RunError, match="cannot be used with aws:assumeRoles"):
        program(checkout, monkeypatch, cloud="aws", fleetFile="sandbox", **{"aws:assumeRoles": ROLES})


@pytest.mark.parametrize(
    "config",
    [
        {"aws:assumeRoles": "arn:role"},
        {"aws:assumeRoles": '[{"role": "x"}]'},
        {"aws:allowedAccountIds": "12"},
    ],
)
def test_invalid_account_settings_are_refused(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, str]
) -> None:
    with pytest.raises(InputError, match="aws:") as refused:
        settings(monkeypatch, **config)
    assert "pulumi config set" in refused.value.remedy


def test_sandbox_never_uses_the_account_of_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings(monkeypatch, cloud="sandbox", **ACCOUNT, **{"aws:assumeRoles": ROLES})
    assert found.aws_provider.keys() == {"access_key", "secret_key"}
    assert found.identity == AwsIdentity()
    assert "profile" not in found.aws_client


def test_protection_and_upfront_cap_are_stack_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings(monkeypatch, cloud="aws", protect="false", allowUpfront="800000.50")
    assert not found.protect
    assert found.allow_upfront == "800000.50"


@pytest.mark.parametrize("amount", ["lots", "-1", "NaN", "Infinity"])
def test_invalid_upfront_cap_is_refused(monkeypatch: pytest.MonkeyPatch, amount: str) -> None:
    with pytest.raises(InputError, match="allowUpfront") as refused:
        settings(monkeypatch, allowUpfront=amount)
    assert "pulumi config set" in refused.value.remedy


def test_wait_for_nodes_is_a_stack_setting_in_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings(monkeypatch).capacity_wait_s == 600
    assert settings(monkeypatch, capacityWait="0.5").capacity_wait_s == 30
    assert settings(monkeypatch, cloud="sandbox").capacity_wait_s == 0
    assert settings(monkeypatch, cloud="sandbox", capacityWait="1").capacity_wait_s == 60


@pytest.mark.parametrize("minutes", ["soon", "-1", "nan", "inf", "121"])
def test_invalid_wait_is_refused(monkeypatch: pytest.MonkeyPatch, minutes: str) -> None:
    with pytest.raises(InputError, match="capacityWait") as refused:
        settings(monkeypatch, capacityWait=minutes)
    assert "pulumi config set" in refused.value.remedy


def test_role_to_assume_reaches_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    client = settings(monkeypatch, **{"aws:assumeRoles": ROLES}).aws_client
    assert client == {"assume_roles": json.loads(ROLES)}


def test_unknown_cloud_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="gcp"):
        settings(monkeypatch, cloud="gcp")


def test_sandbox_uses_a_key_that_no_real_account_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings(monkeypatch, cloud="sandbox")
    assert found.aws_provider["access_key"] == "GPUFLEETSANDBOXONLY0"
    assert found.aws_client["aws_access_key_id"] == "GPUFLEETSANDBOXONLY0"
    assert found.aws_client["endpoint_url"] == "http://127.0.0.1:1"
    assert not found.protect


def test_program_builds_the_environment_of_its_stack(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = program(checkout, monkeypatch, cloud="sandbox", fleetFile="sandbox")
    assert len(built.of("aws:ec2/vpc:Vpc")) == 2
    providers = built.of("pulumi:providers:aws")
    assert {p.inputs["region"] for p in providers} == {"us-east-1", "us-west-2"}
    assert {p.inputs["accessKey"] for p in providers} == {"GPUFLEETSANDBOXONLY0"}


def test_invalid_fleet_file_ends_the_run_with_every_finding_and_no_traceback(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = checkout / "stacks" / "sandbox" / "fleet.yaml"
    text = file.read_text().replace("metadata_iops: ", "metadata_iopss: ")
    file.write_text(text.replace("monthly: 45000 USD", "monthly: -1 USD"))
    with pytest.raises(pulumi.RunError) as ended:
        program(checkout, monkeypatch, cloud="sandbox", fleetFile="sandbox")
    assert "metadata_iopss" in str(ended.value)
    assert "budget.monthly" in str(ended.value)
    assert ended.value.__cause__ is None


@pytest.fixture
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet file of another repository, with a secret."""
    file = tmp_path_factory.mktemp("foreign") / "fleet.yaml"
    file.write_text("token: [hidden-in-a-file\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("way", ["path", "parent", "link"])
def test_stack_settings_cannot_name_a_fleet_file_outside_the_checkout(
    checkout: Path, foreign: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.chdir(checkout / "stacks")
    (checkout / "stacks" / "linked.yaml").symlink_to(foreign)
    named = {
        "path": str(foreign),
        "parent": os.path.relpath(foreign, checkout / "stacks"),
        "link": "../stacks/linked.yaml",
    }[way]
    with pytest.raises(pulumi.RunError, match="leads out") as ended:
        program(checkout, monkeypatch, cloud="sandbox", fleetFile=named)
    assert "hidden" not in str(ended.value)


def test_fleet_file_of_another_repository_is_built_if_gpufleet_passes_it(
    checkout: Path, foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(checkout / "stacks" / "sandbox" / "fleet.yaml", foreign)
    monkeypatch.setenv(GIVEN_FLEET_FILE, str(foreign))
    built = program(checkout, monkeypatch, cloud="sandbox", fleetFile=str(foreign))
    assert len(built.of("aws:ec2/vpc:Vpc")) == 2


def test_stack_without_a_fleet_file_names_the_missing_file(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(pulumi.RunError, match="unit"):
        program(checkout, monkeypatch, cloud="sandbox")
