"""`gpufleet backend`: create, show and print what a team needs to share the state of its stacks."""

from __future__ import annotations

import json as json_module
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from gpufleet.cli.arguments import Environment, Json
from gpufleet.cli.commands import new_app
from gpufleet.cli.console import emit_json, emit_text, note, out
from gpufleet.cli.state_repair import Yes, confirm
from gpufleet.errors import ExitCode, InputError
from gpufleet.workspace import Workspace

if TYPE_CHECKING:
    from gpufleet.account.backend import Backend
    from gpufleet.account.backend_files import ProjectFiles
    from gpufleet.account.backend_settings import BackendSettings

app = new_app(
    help="Share the state of stacks in a team: a bucket, a key and roles' policies.", no_args_is_help=True
)

Bucket = Annotated[
    str, typer.Option("--bucket", help="The bucket's name; `<fleet>-state-<account>` if left out.")
]
Key = Annotated[str, typer.Option("--key", help="The key's alias; `alias/<fleet>-state` if left out.")]
Region = Annotated[
    str, typer.Option("--region", help="Where bucket and key are; the first cloud site's region if left out.")
]
Policies = Annotated[
    bool,
    typer.Option(
        "--policies/--no-policies", help="Whether IAM policies of people, CI and previews belong to it."
    ),
]


class _Context(Struct, frozen=True):
    workspace: Workspace
    environment: str
    settings: BackendSettings
    files: ProjectFiles
    backend: Backend
    profile: str | None


@app.command()
def create(
    environment: Environment,
    bucket: Bucket = "",
    key: Key = "",
    region: Region = "",
    policies: Policies = True,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Create the bucket, the key and the policies, and initialise the stack with them.

    What is there stays; settings that differ are repaired. Nothing is deleted.
    """
    from gpufleet.account.backend_files import commands
    from gpufleet.engine.team_stack import ensure_stack, pulumi_of

    this = _context(environment, bucket, key, region, policies)
    settings, files, name = this.settings, this.files, this.environment
    if files.url and files.url != settings.url:
        files.write_url(settings.url)
    waiting = [part for part in this.backend.parts() if part.status != "ok"]
    if waiting:
        listed = ", ".join(f"{part.name} ({part.status})" for part in waiting)
        confirm(
            f"Change {settings.bucket} and {settings.alias} in {settings.region}, account ending in "
            f"{settings.account[-4:]}: {listed}?",
            yes=yes,
            json=json,
            what="a change of the account",
        )
    done = this.backend.ensure()
    changed = files.write_url(settings.url)
    stack, next_ = "", commands(settings, name)
    if files.secrets_provider not in ("", settings.secrets_provider):
        stack, next_ = (
            "has another key",
            [f"pulumi stack change-secrets-provider -s {name} '{settings.secrets_provider}'"],
        )
    elif pulumi_of(os.environ):
        stack = ensure_stack(this.workspace.root, name, settings.secrets_provider, _pulumi_env(this))
        next_ = []
    if json:
        emit_json(_document(settings) | {
            "changed": [part.name for part in done], "stack": stack or "not initialised", "commands": next_,
        })  # fmt: skip
        return
    for part in done:
        out.print(f"  {part.name}: {'created' if part.status == 'missing' else 'repaired'}", markup=False)
    if not done:
        out.print("  the bucket, the key and their settings are as they should be")
    out.print(
        f"  Pulumi.yaml: backend.url is {settings.url}" + ("" if changed else " already"),
        markup=False,
        soft_wrap=True,
    )
    if not next_:
        out.print(f"  stack {name}: {'initialised' if stack == 'created' else 'is there'}", markup=False)
        note(f"next: commit Pulumi.yaml and {files.stack.name}; `gpufleet up {name}`")
        return
    if stack:
        out.print(
            f"  stack {name}: its secrets are encrypted with {files.secrets_provider}; run:", markup=False
        )
    else:
        out.print("  the Pulumi CLI is not on PATH; where it is, run in this checkout:")
    for line in next_:
        out.print(f"    {line}", markup=False, soft_wrap=True)


@app.command()
def show(
    environment: Environment,
    bucket: Bucket = "",
    key: Key = "",
    region: Region = "",
    policies: Policies = True,
    json: Json = False,
) -> None:
    """Compare the bucket, the key and the policies with what they should be. Exit code 1 if they differ."""
    this = _context(environment, bucket, key, region, policies)
    parts = this.backend.parts()
    if json:
        shown = [{"name": part.name, "status": part.status, "found": part.found} for part in parts]
        emit_json(_document(this.settings) | {"parts": shown})
    else:
        out.print(f"{this.settings.url}  {this.settings.secrets_provider}", markup=False, soft_wrap=True)
        for part in parts:
            found = f": {part.found}" if part.found else ""
            out.print(f"  {part.name:32} {part.status}{found}", markup=False, soft_wrap=True)
    if any(part.status != "ok" for part in parts):
        if not json:
            note(f"`gpufleet backend create {this.environment}` creates and repairs them")
        raise typer.Exit(int(ExitCode.REFUSED))


@app.command("print")
def print_(
    environment: Environment,
    account: Annotated[
        str, typer.Option("--account", help="The account's 12 digits; that of the credentials if left out.")
    ] = "",
    bucket: Bucket = "",
    key: Key = "",
    region: Region = "",
    only: Annotated[
        str, typer.Option("--only", help="template (CloudFormation), policies (JSON by name) or commands.")
    ] = "template",
) -> None:
    """Print what `create` would create, for an administrator. Needs no credentials with --account."""
    from gpufleet.account.backend_files import ProjectFiles, commands
    from gpufleet.account.backend_policies import policies
    from gpufleet.account.backend_template import template

    workspace = Workspace.open(environment)
    name = workspace.environment()
    files = ProjectFiles(workspace.root, name)
    if account and not (account.isdigit() and len(account) == 12):
        raise InputError(f"--account {account}: an account has 12 digits", remedy="write it without '-'")
    settings = _settings(workspace, files, account or _account(workspace, name), bucket, key, region)
    if only == "template":
        document: Any = template(settings, files.project_name, name)
    elif only == "policies":
        arn = f"arn:{settings.partition}:kms:{settings.region}:{settings.account}:key/KEY-ID"
        document = policies(settings, arn, files.project_name, name)
    elif only == "commands":
        emit_text("".join(f"{line}\n" for line in commands(settings, name)))
        return
    else:
        raise InputError(
            f"--only {only} is not one of template, policies, commands", remedy="use one of these"
        )
    emit_text(json_module.dumps(document, indent=2) + "\n")


def _context(environment: str, bucket: str, key: str, region: str, with_policies: bool) -> _Context:
    from gpufleet.account.backend import Backend
    from gpufleet.account.backend_files import ProjectFiles
    from gpufleet.account.backend_policies import policies

    workspace = Workspace.open(environment)
    name = workspace.environment()
    files = ProjectFiles(workspace.root, name)
    profile = workspace.stack_config(name, plain_only=True).get("aws:profile")
    settings = _settings(workspace, files, _account(workspace, name), bucket, key, region)

    def wanted(arn: str) -> Mapping[str, Mapping[str, Any]]:
        return policies(settings, arn, files.project_name, name) if with_policies else {}

    return _Context(
        workspace,
        name,
        settings,
        files,
        Backend(settings, _clients(settings.region, profile), wanted),
        profile,
    )


def _settings(
    workspace: Workspace, files: ProjectFiles, account: str, bucket: str, key: str, region: str
) -> BackendSettings:
    """Return the settings: options first, then those of the project file, then defaults."""
    from urllib.parse import parse_qs, urlsplit

    import boto3

    from gpufleet.account.backend_settings import BackendSettings, default_alias, default_bucket
    from gpufleet.spec.load import load_fleet

    spec = load_fleet(workspace.target, root=workspace.root).spec
    written = urlsplit(files.url) if files.url.startswith("s3://") else None
    provider = files.secrets_provider
    alias = provider.removeprefix("awskms://").partition("?")[0] if provider.startswith("awskms://") else ""
    place = (
        region
        or (parse_qs(written.query).get("region", [""])[0] if written else "")
        or next((site.region for site in spec.cloud), "")
    )
    if not place:
        raise InputError(
            f"{spec.environment} has no cloud site whose region the bucket could take",
            remedy="pass --region, such as --region eu-central-1",
        )
    partition = boto3.Session().get_partition_for_region(place) if _is_region(place) else ""
    if not partition:
        raise InputError(f"AWS has no region {place!r}", remedy="correct --region, such as eu-central-1")
    return BackendSettings(
        fleet=spec.fleet,
        account=account,
        partition=partition,
        region=place,
        bucket=bucket or (written.netloc if written else "") or default_bucket(spec.fleet, account),
        alias=key or alias or default_alias(spec.fleet),
    )


def _is_region(name: str) -> bool:
    import boto3

    session = boto3.Session()
    return any(
        name in session.get_available_regions("s3", partition_name=each)
        for each in session.get_available_partitions()
    )


def _account(workspace: Workspace, environment: str) -> str:
    """Return the account of the credentials; refuses missing and rejected ones."""
    from gpufleet.cli.account import require_account

    profile = workspace.stack_config(environment, plain_only=True).get("aws:profile")
    require_account((), profile)
    from gpufleet.cli.account import FALLBACK_REGION

    return str(_clients(FALLBACK_REGION, profile)("sts").get_caller_identity()["Account"])


def _clients(region: str, profile: str | None) -> Callable[[str], Any]:
    import boto3

    session = boto3.Session(profile_name=profile, region_name=region)
    made: dict[str, Any] = {}

    def client(service: str) -> Any:
        if service not in made:
            made[service] = session.client(service)
        return made[service]

    return client


def _pulumi_env(this: _Context) -> dict[str, str]:
    env = {"PULUMI_BACKEND_URL": os.environ.get("PULUMI_BACKEND_URL", this.settings.url)}
    return env | ({"AWS_PROFILE": this.profile} if this.profile else {})


def _document(settings: BackendSettings) -> dict[str, str]:
    return {
        "bucket": settings.bucket,
        "region": settings.region,
        "url": settings.url,
        "secrets_provider": settings.secrets_provider,
    }
