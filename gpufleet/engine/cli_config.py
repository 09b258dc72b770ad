"""The configuration file of a run of the Pulumi CLI, with secrets encrypted as Pulumi does."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pulumi import automation
from ruamel.yaml import YAML

from gpufleet.engine.api import StackRequest
from gpufleet.engine.embedded.crypter import Crypter, new_crypter
from gpufleet.engine.project_file import read_project_file
from gpufleet.errors import InputError

_CLOUD = "gpufleet:cloud"


def write_config(
    scratch: Path,
    request: StackRequest,
    command: automation.PulumiCommand,
    env: Mapping[str, str],
    *,
    exists: bool,
) -> Path:
    """Write the run's configuration: the stack's own settings, overridden by the request's values."""
    yaml = YAML(typ="safe")
    settings = own_settings(request)
    config: dict[str, Any] = dict(settings.get("config") or {})
    secret = {key: request.config[key] for key in request.secret_config if key in request.config}
    config.update({key: text for key, text in request.config.items() if key not in secret})
    if secret:
        crypter = _crypter(settings, request, command, env, exists=exists)
        settings["encryptionsalt"] = crypter.state
        config.update({key: {"secure": crypter.encrypt(text)} for key, text in secret.items()})
    elif "encryptionsalt" not in settings and "secretsprovider" not in settings and exists:
        settings |= _provider_in_state(request, command, env)
    path = scratch / f"Pulumi.{request.stack}.yaml"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        yaml.dump({**settings, "config": config}, out)
    return path


def _crypter(
    settings: Mapping[str, Any],
    request: StackRequest,
    command: automation.PulumiCommand,
    env: Mapping[str, str],
    *,
    exists: bool,
) -> Crypter:
    if settings.get("secretsprovider") not in (None, "", "passphrase"):
        raise InputError(
            f"the stack's secrets provider is {settings['secretsprovider']}, and the run has secret settings",
            remedy="set them with `pulumi config set --secret`, which stores them in the stack's own file",
        )
    passphrase = env.get("PULUMI_CONFIG_PASSPHRASE")
    if passphrase is None and env.get("PULUMI_CONFIG_PASSPHRASE_FILE"):
        passphrase = Path(env["PULUMI_CONFIG_PASSPHRASE_FILE"]).read_text(encoding="utf-8").strip()
    if passphrase is None:
        raise InputError(
            "the run has secret settings, and no passphrase is set to encrypt them with",
            remedy="set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE",
        )
    salt = str(settings.get("encryptionsalt") or "")
    if not salt and exists:
        salt = _salt_in_state(request, command, env)
    return Crypter(passphrase, salt) if salt else new_crypter(passphrase)


def secrets_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stack settings say of the secrets provider."""
    return {
        key: settings[key] for key in ("secretsprovider", "encryptedkey", "encryptionsalt") if key in settings
    }


def own_settings(request: StackRequest) -> dict[str, Any]:
    """Return the stack's own settings file; empty without one.

    In the sandbox without a key of KMS and what it encrypted: that key is in a real account.
    """
    root = request.project_root
    project = read_project_file(root / "Pulumi.yaml", remedy="write `runtime: python`", within=root)
    own = root / str(project.get("stackConfigDir") or "") / f"Pulumi.{request.stack}.yaml"
    if not os.path.lexists(own):
        return {}
    settings = read_project_file(own, remedy="see `pulumi config`", within=root)
    if request.config.get(_CLOUD) != "sandbox" or not str(settings.get("secretsprovider", "")).startswith(
        "awskms:"
    ):
        return settings
    kept = {key: value for key, value in settings.items() if key not in ("secretsprovider", "encryptedkey")}
    config = {
        key: value
        for key, value in (settings.get("config") or {}).items()
        if not (isinstance(value, Mapping) and "secure" in value)
    }
    return {**kept, "config": config}


def _provider_in_state(
    request: StackRequest, command: automation.PulumiCommand, env: Mapping[str, str]
) -> dict[str, Any]:
    """Return the secrets provider that the state names, as stack settings: for a lost settings file."""
    providers = _secrets_providers(request, command, env)
    state = providers.get("state") or {}
    if providers.get("type") == "cloud" and state.get("url"):
        return {"secretsprovider": str(state["url"]), "encryptedkey": str(state.get("encryptedkey", ""))}
    salt = str(state.get("salt", "")) if providers.get("type") == "passphrase" else ""
    return {"encryptionsalt": salt} if salt else {}


def _salt_in_state(request: StackRequest, command: automation.PulumiCommand, env: Mapping[str, str]) -> str:
    return str(_provider_in_state(request, command, env).get("encryptionsalt", ""))


def _secrets_providers(
    request: StackRequest, command: automation.PulumiCommand, env: Mapping[str, str]
) -> dict[str, Any]:
    words = ["stack", "export", "--stack", request.stack]
    state = json.loads(command.run(words, str(request.project_root), dict(env)).stdout)
    return dict((state.get("deployment") or {}).get("secrets_providers") or {})
