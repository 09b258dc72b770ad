"""The smallest shared library that the dynamic linker loads: nothing in it but its name."""

from __future__ import annotations

import struct

HEADER, SEGMENT, SYMBOL, DYNAMIC = 64, 56, 24, 16
HASH, STRTAB, SYMTAB, STRSZ, SYMENT, SONAME = 4, 5, 6, 10, 11, 14
LOAD, DYNAMIC_SEGMENT, STACK = 1, 2, 0x6474E551
READ_WRITE = 6


def library(soname: str) -> bytes:
    """An ELF file for x86-64 with the given SONAME, without symbols."""
    names = b"\0" + soname.encode() + b"\0"
    strings = HEADER + 3 * SEGMENT
    symbols = _aligned(strings + len(names))
    table = symbols + SYMBOL
    dynamic = _aligned(table + 16)
    entries = [
        *((SONAME, 1), (HASH, table), (STRTAB, strings), (SYMTAB, symbols)),
        *((STRSZ, len(names)), (SYMENT, SYMBOL), (0, 0)),
    ]
    size = dynamic + DYNAMIC * len(entries)
    # Shared object, x86-64; three segments and no sections.
    header = struct.pack(
        "<4sBBBBQHHIQQQIHHHHHH",
        *(b"\x7fELF", 2, 1, 1, 0, 0, 3, 62, 1, 0, HEADER, 0, 0, HEADER, SEGMENT, 3, 0, 0, 0),
    )
    segments = b"".join(
        # The linker writes into the dynamic section.
        struct.pack("<IIQQQQQQ", kind, READ_WRITE, at, at, at, length, length, align)
        for kind, at, length, align in (
            (LOAD, 0, size, 0x1000),
            (DYNAMIC_SEGMENT, dynamic, DYNAMIC * len(entries), 8),
            (STACK, 0, 0, 16),
        )
    )
    # One bucket, one symbol, which is the undefined one.
    whole = bytearray(size)
    for at, part in (
        (0, header + segments),
        (strings, names),
        (table, struct.pack("<IIII", 1, 1, 0, 0)),
        (dynamic, b"".join(struct.pack("<qQ", *entry) for entry in entries)),
    ):
        whole[at : at + len(part)] = part
    return bytes(whole)


def _aligned(offset: int) -> int:
    return (offset + 7) // 8 * 8
