"""Values of required tags that name nobody, however they are written."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpufleet.checks.tag_owners import PLACEHOLDERS, names_nobody
from tests.unit.checks.fleets import Judge

INVISIBLE = (
    "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u061c\u115f\u1160\u17b4\u180e\u2800\u3164\uffa0\U000e0020"
)
AROUND = st.text(alphabet=" -_.:/=+@" + INVISIBLE, max_size=4)


@pytest.mark.parametrize(
    "value",
    [
        "-",
        "--",
        ".",
        "none",
        "N/A",
        "n.a.",
        "TBD",
        "-none-",
        "xxx",
        "\uff4e\uff4f\uff4e\uff45",
        "\u3164",
        "\u200b",
        *(
            "n\u043ene",
            "n\u00f3ne",
            "\u0640\u0640",
            "no\u0640ne",
            "y\u00f3ur-team",
            "none/none",
            "none1",
            "aaa",
            "0000",
        ),
        *("default", "all", "someone", "your-team", "TEAM_NAME", "unknown-team", "no owner", "TBD 2031"),
        *("to be defined", "change-me-1", "cost center", "keine", "\u7121"),
    ],
)
def test_placeholder_or_invisible_value_names_nobody(value: str) -> None:
    assert names_nobody(value)


@pytest.mark.parametrize(
    "value", ["research", "cc-4711", "cc-0000", "a", "no-reply", "none-of-us", "研究", "équipe-0", "x1", "10"]
)
def test_name_of_an_owner_is_one(value: str) -> None:
    assert not names_nobody(value)


@given(st.sampled_from(sorted(PLACEHOLDERS)), AROUND, AROUND, st.integers(0, 9), st.booleans())
def test_no_spelling_of_a_placeholder_is_a_name(
    word: str, around: str, inside: str, place: int, upper: bool
) -> None:
    written = word[:place] + inside + word[place:]
    assert names_nobody(around + (written.upper() if upper else written) + around)


@given(st.text(alphabet=INVISIBLE + " -_.:/=+@"))
def test_text_without_a_visible_letter_or_digit_names_nobody(text: str) -> None:
    assert names_nobody(text)


# No word that stands for nobody begins like that.
@given(st.text(alphabet=st.characters(categories=["Lu", "Ll", "Nd"]), min_size=7).map("xq{}".format))
def test_long_names_are_names(name: str) -> None:
    letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    assume(len({each for each in letters if unicodedata.category(each)[0] in "LN"}) > 3)
    assert not names_nobody(name)


@given(
    st.lists(
        st.sampled_from(("default", "team", "no", "owner", "unknown", "TBD", "none", "your")), min_size=1
    )
)
def test_no_words_that_suit_everyone_are_a_name_together(words: list[str]) -> None:
    assert names_nobody("-".join(words))
    assert not names_nobody("-".join([*words, "vision"]))


@pytest.mark.parametrize("key", ["team", "cost-center", "Business_Unit"])
def test_key_as_its_value_names_nobody(key: str) -> None:
    assert names_nobody(key.upper().replace("_", "-"), key)
    assert not names_nobody(f"{key}-atlas", key)


@pytest.mark.parametrize("value", ["none", "\u3164\u3164", "research"])
def test_required_tag_of_a_fleet_names_somebody(judge: Judge, value: str) -> None:
    rules = judge({"tags.team": value}).rules
    assert ("required-tags" in rules) == (value != "research")
