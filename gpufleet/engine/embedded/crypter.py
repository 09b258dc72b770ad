"""Encryption of secrets at rest: Pulumi's passphrase provider, format `v1` (AES-256-GCM, PBKDF2-SHA256).

Format (pkg/secrets/passphrase and sdk/go/common/resource/config/crypt.go of Pulumi): the state is
`v1:<base64 salt>:<the word "pulumi" encrypted>`, a value `v1:<base64 nonce>:<base64 ciphertext>`, the key
PBKDF2 with 1,000,000 rounds. Deriving the key takes about half a second, so it happens on the first read or
write of a secret.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gpufleet.engine.embedded.files import make_folder, replace_durably, state_error, write_durably
from gpufleet.engine.errors import PassphraseError, StateError

ROUNDS = 1_000_000
_CHECK_WORD = "pulumi"


class Crypter:
    """Encrypts and decrypts with the key of one passphrase and salt (state `v1:<salt>:<check>`)."""

    def __init__(self, passphrase: str, state: str, rounds: int = ROUNDS) -> None:
        parts = state.split(":", 2)
        if len(parts) != 3 or parts[0] != "v1":
            raise StateError(
                "the state's secrets provider has a salt in an unknown format",
                remedy="the embedded engine supports only Pulumi's passphrase provider, format v1",
            )
        self.state = state
        self._aead = AESGCM(_derive(passphrase, parts[1], rounds))
        try:
            genuine = self.decrypt(parts[2]) == _CHECK_WORD
        except StateError:
            genuine = False
        if not genuine:
            raise PassphraseError(
                "the passphrase does not match the secrets in the state",
                remedy="set PULUMI_CONFIG_PASSPHRASE (or _FILE) to the passphrase of the state",
            )

    def encrypt(self, plaintext: str) -> str:
        """Return the value in format `v1:<nonce>:<ciphertext>`, with a fresh nonce."""
        nonce = secrets.token_bytes(12)
        sealed = self._aead.encrypt(nonce, plaintext.encode(), None)
        return f"v1:{base64.b64encode(nonce).decode()}:{base64.b64encode(sealed).decode()}"

    def decrypt(self, ciphertext: str) -> str:
        """Return the plaintext of a value; a damaged one raises a `StateError`."""
        try:
            version, nonce, sealed = ciphertext.split(":")
            if version != "v1":
                raise ValueError(version)
            return self._aead.decrypt(base64.b64decode(nonce), base64.b64decode(sealed), None).decode()
        except (ValueError, InvalidTag) as error:
            raise StateError(
                "a secret in the state cannot be decrypted",
                remedy="restore the state from its backup, or set the passphrase that it was written with",
            ) from error


@lru_cache(maxsize=8)
def _derive(passphrase: str, salt: str, rounds: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", passphrase.encode(), base64.b64decode(salt), rounds, 32)


def new_crypter(passphrase: str, rounds: int = ROUNDS) -> Crypter:
    """Return a crypter with a new random salt."""
    salt = base64.b64encode(secrets.token_bytes(8)).decode()
    aead = AESGCM(_derive(passphrase, salt, rounds))
    nonce = secrets.token_bytes(12)
    check = base64.b64encode(aead.encrypt(nonce, _CHECK_WORD.encode(), None)).decode()
    return Crypter(passphrase, f"v1:{salt}:v1:{base64.b64encode(nonce).decode()}:{check}", rounds)


class SecretsManager:
    """The secrets provider of one state file: its salt, its passphrase, and the source of both.

    The passphrase is PULUMI_CONFIG_PASSPHRASE, or the content of PULUMI_CONFIG_PASSPHRASE_FILE; else a
    random one in `<state>.passphrase` (mode 0600). `notice` is set if that file was just created.
    """

    def __init__(
        self, state_file: Path, salt: str, env: Mapping[str, str] | None = None, rounds: int = ROUNDS
    ) -> None:
        self._file = state_file.with_name(state_file.name + ".passphrase")
        self._env = os.environ if env is None else env
        self._salt = salt
        self._rounds = rounds
        self._crypter: Crypter | None = None
        self._lock = threading.Lock()
        self.notice = ""

    @property
    def salt(self) -> str:
        """Return the salt for the checkpoint; empty if no secret was ever written."""
        return self._salt

    def encrypt(self, plaintext: str) -> str:
        """Encrypt a value; the first call creates the key (and the passphrase file, if needed)."""
        return self._ready(may_create=True).encrypt(plaintext)

    def decrypt(self, ciphertext: str) -> str:
        """Decrypt a value of this state."""
        return self._ready(may_create=False).decrypt(ciphertext)

    def _ready(self, *, may_create: bool) -> Crypter:
        with self._lock:
            if self._crypter is None:
                passphrase = self._passphrase(may_create=may_create and not self._salt)
                self._crypter = (
                    Crypter(passphrase, self._salt, self._rounds)
                    if self._salt
                    else new_crypter(passphrase, self._rounds)
                )
                self._salt = self._crypter.state
            return self._crypter

    def _passphrase(self, *, may_create: bool) -> str:
        given = self._env.get("PULUMI_CONFIG_PASSPHRASE")
        if given is not None:
            return given
        named = self._env.get("PULUMI_CONFIG_PASSPHRASE_FILE")
        if named:
            try:
                return Path(named).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise PassphraseError(
                    f"PULUMI_CONFIG_PASSPHRASE_FILE is {named}, which cannot be read: {error.strerror}",
                    remedy="set it to a readable file, or set PULUMI_CONFIG_PASSPHRASE",
                ) from error
        kept = self._kept()
        if kept:
            return kept
        if not may_create:
            raise PassphraseError(
                f"the state has secrets, and neither PULUMI_CONFIG_PASSPHRASE nor {self._file} is set",
                remedy="set PULUMI_CONFIG_PASSPHRASE to the passphrase of the state",
            )
        return self._create()

    def _kept(self) -> str:
        """Return the random passphrase of an earlier run; empty if there is none."""
        try:
            kept = self._file.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise PassphraseError(
                f"{self._file}, the passphrase of the state, cannot be read: {reason}",
                remedy="make it readable, or set PULUMI_CONFIG_PASSPHRASE to its content",
            ) from error
        if not kept:
            raise PassphraseError(
                f"{self._file}, the passphrase of the state, is empty",
                remedy="restore its content, or set PULUMI_CONFIG_PASSPHRASE to the passphrase",
            )
        return kept

    def _create(self) -> str:
        passphrase = secrets.token_urlsafe(32)
        temporary = self._file.with_name(self._file.name + ".tmp")
        try:
            make_folder(self._file.parent)
            # Written whole or not at all: half a passphrase could not decrypt the state.
            write_durably(temporary, f"{passphrase}\n".encode())
            replace_durably(temporary, self._file)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise state_error(self._file, "the passphrase of the state cannot be written", error) from error
        self.notice = (
            "PULUMI_CONFIG_PASSPHRASE is not set: secrets in the state are encrypted with a random "
            f"passphrase stored in {self._file}"
        )
        return passphrase
