"""Secrets at rest, in the format of Pulumi's passphrase provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.engine.embedded.crypter import Crypter, SecretsManager, new_crypter
from gpufleet.engine.errors import PassphraseError, StateError

# Written by the Pulumi CLI 3.260 with the passphrase "open sesame".
SALT = "v1:0isZ+jKb9hw=:v1:QLuaA0+uSCUV0NEZ:/q/eMyc01w3PrroBWV5xkpNglx5Q2Q=="
SEALED = "v1:udvEbN262VCFihPs:FgmaN9D+O5XxdrwGYTOvXjKbeVlkwGrK3ZvT72d5TQ=="


def test_secrets_encrypted_by_the_cli_are_decrypted() -> None:
    assert Crypter("open sesame", SALT).decrypt(SEALED) == "plain secret ä"


def test_each_encryption_differs_and_decrypts() -> None:
    crypter = Crypter("open sesame", SALT)
    first, second = crypter.encrypt("x"), crypter.encrypt("x")
    assert first != second
    assert first.startswith("v1:")
    assert crypter.decrypt(first) == crypter.decrypt(second) == "x"


def test_new_salt_is_checked_against_its_passphrase() -> None:
    state = new_crypter("one").state
    Crypter("one", state)
    with pytest.raises(PassphraseError, match="does not match"):
        Crypter("two", state)


@pytest.mark.parametrize("bad", ["", "x", "v2:a:b", "v1:AAAA:AAAA", SEALED[:-8]])
def test_damaged_ciphertext_is_refused(bad: str) -> None:
    with pytest.raises(StateError, match="cannot be decrypted"):
        Crypter("open sesame", SALT).decrypt(bad)


def test_salt_of_another_format_is_refused() -> None:
    with pytest.raises(StateError, match="unknown format"):
        Crypter("x", "v9:abc")


def test_passphrase_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    state = tmp_path / "dev.json"
    by_value = SecretsManager(state, SALT, {"PULUMI_CONFIG_PASSPHRASE": "open sesame"})
    assert by_value.decrypt(SEALED) == "plain secret ä"
    file = tmp_path / "phrase"
    file.write_text("open sesame\n")
    by_file = SecretsManager(state, SALT, {"PULUMI_CONFIG_PASSPHRASE_FILE": str(file)})
    assert by_file.decrypt(SEALED) == "plain secret ä"
    assert by_file.notice == ""
    missing = SecretsManager(state, SALT, {"PULUMI_CONFIG_PASSPHRASE_FILE": str(tmp_path / "no")})
    with pytest.raises(PassphraseError, match="cannot be read"):
        missing.decrypt(SEALED)


def test_existing_salt_never_gets_a_new_passphrase(tmp_path: Path) -> None:
    manager = SecretsManager(tmp_path / "dev.json", SALT, {})
    with pytest.raises(PassphraseError, match="the state has secrets"):
        manager.encrypt("x")
    assert list(tmp_path.iterdir()) == []


def test_random_passphrase_is_private_and_found_again(tmp_path: Path) -> None:
    first = SecretsManager(tmp_path / "dev.json", "", {})
    sealed = first.encrypt("x")
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert str(file) in first.notice
    second = SecretsManager(tmp_path / "dev.json", first.salt, {})
    assert second.decrypt(sealed) == "x"
    assert second.notice == ""


def test_key_is_derived_only_when_a_secret_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpufleet.engine.embedded import crypter

    monkeypatch.setattr(crypter, "_derive", lambda *_: pytest.fail("derived"))
    assert SecretsManager(tmp_path / "dev.json", SALT, {}).salt == SALT


def test_passphrase_file_is_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpufleet.engine.embedded import crypter

    def full(path: Path, content: bytes) -> None:
        path.write_bytes(content[:7])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(crypter, "write_durably", full)
        with pytest.raises(StateError, match="No space left on device") as refused:
            SecretsManager(tmp_path / "dev.json", "", {}).encrypt("x")
    assert "free space" in refused.value.remedy
    assert list(tmp_path.iterdir()) == []
    assert SecretsManager(tmp_path / "dev.json", "", {}).encrypt("x")


def test_empty_passphrase_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "dev.json.passphrase"
    file.write_text("\n")
    for salt in ("", SALT):
        manager = SecretsManager(tmp_path / "dev.json", salt, {})
        with pytest.raises(PassphraseError, match="is empty"):
            manager.encrypt("x")
    assert file.read_text() == "\n"


@pytest.mark.parametrize("content", [b"\xff\xfe\xff", None])
def test_unreadable_passphrase_is_reported_with_a_remedy(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "dev.json.passphrase"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(PassphraseError, match="cannot be read") as refused:
        SecretsManager(tmp_path / "dev.json", SALT, {}).encrypt("x")
    assert "PULUMI_CONFIG_PASSPHRASE" in refused.value.remedy


def test_random_passphrase_of_a_temporary_state_needs_no_rounds(tmp_path: Path) -> None:
    file, env = tmp_path / "state.json", {"PULUMI_CONFIG_PASSPHRASE": "3f" * 16}
    manager = SecretsManager(file, "", env, rounds=1)
    sealed = manager.encrypt("x")
    assert SecretsManager(file, manager.salt, env, rounds=1).decrypt(sealed) == "x"
    # With the usual rounds the key is another one: nothing weak is read by mistake.
    with pytest.raises(PassphraseError, match="does not match"):
        SecretsManager(file, manager.salt, env).decrypt(sealed)
