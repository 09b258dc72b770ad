"""Access of a stack's program to the emulated AWS of its checkout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from gpufleet.lab.aws.provider.config import sandbox_folder


def program_access(root: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """See `gpufleet.lab_extra.sandbox_access`."""
    url = os.environ.get("AWS_ENDPOINT_URL") or daemon.ensure(sandbox_folder(root)).url
    provider = {"access_key": ACCESS_KEY_ID, "secret_key": SECRET_ACCESS_KEY}
    client = {
        "endpoint_url": url,
        "aws_access_key_id": ACCESS_KEY_ID,
        "aws_secret_access_key": SECRET_ACCESS_KEY,
    }
    return provider, client
