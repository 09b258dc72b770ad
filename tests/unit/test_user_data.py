"""User data: the kinds of parts, and a MIME document that others read back."""

from __future__ import annotations

import base64
import email
from email.message import Message

import pytest

from gpufleet.user_data import encoded, mime_document, part_kind

SCRIPT = "#!/bin/bash\necho 'ready' && exit 0\n"
CLOUD = "#cloud-config\npackages: [htop]\n"
NODE = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"


def parts_of(document: str) -> list[Message]:
    read = email.message_from_string(document)
    assert read.is_multipart() and read.get_content_type() == "multipart/mixed"
    assert not read.defects
    return [part for part in read.walk() if not part.is_multipart()]


def test_standard_reader_finds_each_part_with_its_type_and_text() -> None:
    parts = parts_of(mime_document([NODE, SCRIPT, CLOUD]))
    assert [part.get_content_type() for part in parts] == [
        "application/node.eks.aws",
        "text/x-shellscript",
        "text/cloud-config",
    ]
    assert [str(part.get_payload()).strip() for part in parts] == [
        NODE.strip(),
        SCRIPT.strip(),
        CLOUD.strip(),
    ]


def test_equal_parts_give_an_equal_document_and_others_another_boundary() -> None:
    assert mime_document([SCRIPT]) == mime_document([SCRIPT])
    boundaries = {
        email.message_from_string(mime_document(parts)).get_boundary()
        for parts in ([SCRIPT], [CLOUD], [SCRIPT, CLOUD], [f"{SCRIPT}{chr(0)}{CLOUD}"])
    }
    assert len(boundaries) >= 3
    assert not any(str(boundary) in SCRIPT + CLOUD for boundary in boundaries)


def test_part_that_quotes_another_document_stays_one_part() -> None:
    nested = f"#!/bin/sh\ncat <<X\n{mime_document([CLOUD])}\nX\n"
    assert len(parts_of(mime_document([nested]))) == 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("#!/bin/sh", "shell script"),
        ("#cloud-config", "cloud-config"),
        (NODE, "NodeConfig"),
        ("#cloud-configuration\n", None),
        ("echo hello", None),
        ("", None),
    ],
)
def test_part_is_known_by_its_first_line(text: str, kind: str | None) -> None:
    assert part_kind(text) == kind


def test_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match="starts with 'echo'"):
        mime_document(["echo"])


def test_launch_templates_take_base64() -> None:
    assert base64.b64decode(encoded(mime_document([SCRIPT]))).decode() == mime_document([SCRIPT])
