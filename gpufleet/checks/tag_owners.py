"""Values of tags that name no owner: invisible text, placeholders, and words that would suit everyone."""

from __future__ import annotations

import re
import unicodedata

PLACEHOLDERS = frozenset(
    {
        *("none", "null", "nil", "na", "nan", "nobody", "noone", "no", "tbd", "tba", "tbc", "todo", "fixme"),
        *("unknown", "undefined", "undef", "unset", "unassigned", "unspecified", "notset", "notapplicable"),
        *("empty", "blank", "missing", "placeholder", "changeme", "changethis", "replaceme", "dummy"),
        *("value", "void", "pending", "later", "example", "sample", "foo", "bar", "asdf", "qwerty", "temp"),
        *("someone", "somebody", "anyone", "anybody", "everyone", "everybody", "other", "others", "misc"),
        *("unallocated", "unowned", "ownerless", "orphan", "false", "true", "keine", "niemand", "aucun"),
        *("personne", "ninguno", "nadie", "nessuno", "nenhum", "无", "無", "なし"),
    }
)
"""Values that stand for no owner, as their letters and digits alone."""

_GENERIC = PLACEHOLDERS | {
    *("team", "owner", "project", "cost", "center", "centre", "costcenter", "name", "department", "group"),
    *("any", "all", "be", "change", "default", "defined", "determined", "my", "not", "or", "set"),
    *("the", "this", "me", "to", "your", "applicable", "decided", "here"),
}
"""Words that name nobody together either: `default-team`, `your cost center`, `to be defined`."""

_FILLERS = frozenset("\u115f\u1160\u3164\uffa0")
"""Hangul fillers: letters to Unicode, and blank on every screen."""

_LOOK_ALIKE = str.maketrans("аеіјорсухѕԁһαεικνορτυχ", "aeijopcyxsdhaeiknoptux")
"""Cyrillic and Greek letters that look like Latin ones."""


def names_nobody(value: str, key: str = "") -> bool:
    """Return whether a tag value has no visible letter or digit, or names nobody in any spelling.

    It names nobody as well if it repeats the tag's `key`, or consists of one repeated character.
    """
    words = _words(value)
    name = "".join(words)
    if not name or name in PLACEHOLDERS or name == "".join(_words(key)):
        return True
    if len(name) > 1 and len(set(name)) == 1:
        return True
    spoken = [each for each in (word.rstrip("0123456789") for word in words) if each]
    return bool(spoken) and all(each in _GENERIC for each in spoken)


def _words(text: str) -> list[str]:
    """Return the runs of letters and digits in lower case, without accents and look-alikes."""
    visible = "".join(each for each in text if each not in _FILLERS)
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", visible).casefold())
    plain = "".join(each for each in folded if _is_kept(each))
    return re.findall(r"[^\W_]+", plain.casefold().translate(_LOOK_ALIKE))


def _is_kept(char: str) -> bool:
    """Return whether a character is part of a name or separates words: no mark and no format character."""
    kind = unicodedata.category(char)
    return kind[0] in "LNPSZ" and kind != "Lm"
