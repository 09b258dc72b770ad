"""Copy captures with neutral identities: what names a GPU, a serial number or a build machine is replaced.

    python -m tests.gpu.mask FROM TO [old=new ...]

A value is replaced by one of the same form, the same one everywhere. `old=new` replaces further texts, such
as paths of the host. Read the result before it is kept: only known identities are replaced.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

UUID = re.compile(r"\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
PATTERNS = (
    # nvidia-smi -q and -q -x, and `Device Serial Number` of lspci -vvv.
    (re.compile(r"(GPU PDI\s*: |<pdi>)0x[0-9a-f]{16}"), r"\g<1>0x00000000000000a1"),
    (re.compile(r"(Device Serial Number )[0-9a-f]{2}(?:-[0-9a-f]{2}){7}"), r"\g<1>00-00-00-00-00-2d-b0-48"),
    # The user and host that built a kernel module, in its version.
    (re.compile(r"\((?:[\w.-]+)@[\w.-]*\)"), "(builder@)"),
)
SERIAL = re.compile(r"<serial>(\d+)</serial>")


def mask(texts: dict[str, str], replaced: dict[str, str]) -> dict[str, str]:
    """Return the texts by name with neutral identities.

    >>> mask({"L": "GPU-7c31693f-1b11-4758-4602-591a7fd83f5c"}, {})
    {'L': 'GPU-00000000-0000-0000-0000-000000000000'}
    """
    everything = "\n".join(texts.values())
    changes = {uuid: f"GPU-00000000-0000-0000-0000-{n:012x}" for n, uuid in enumerate(once(UUID, everything))}
    changes |= {serial: f"165{n:0{len(serial) - 3}d}" for n, serial in enumerate(once(SERIAL, everything))}
    changes |= replaced
    found = {}
    for name, text in texts.items():
        for pattern, new in PATTERNS:
            text = pattern.sub(new, text)
        for old, new in changes.items():
            text = text.replace(old, new)
        found[name] = text
    return found


def once(pattern: re.Pattern[str], text: str) -> list[str]:
    """Return the matches in their order, each once."""
    return list(dict.fromkeys(pattern.findall(text)))


def main(source: Path, target: Path, replaced: dict[str, str]) -> None:
    texts = {path.name: path.read_text() for path in sorted(source.iterdir()) if path.is_file()}
    target.mkdir(parents=True, exist_ok=True)
    for name, text in mask(texts, replaced).items():
        (target / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), dict(each.split("=", 1) for each in sys.argv[3:]))
