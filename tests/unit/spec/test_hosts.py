"""Host ranges: valid ones, and those refused before they fill the memory."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from gpufleet.spec.hosts import HostList, HostRange
from gpufleet.spec.parsing import QuantityError
from tests.unit.spec.samples import VALID, Checkout


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("dgx[001-003]", ("dgx001", "dgx002", "dgx003")),
        ("dgx[001-002,012]", ("dgx001", "dgx002", "dgx012")),
        ("dgx[1-2, 12]", ("dgx1", "dgx2", "dgx12")),
        ("dgx[8-11]", ("dgx8", "dgx9", "dgx10", "dgx11")),
        ("dgx[0-2]", ("dgx0", "dgx1", "dgx2")),
        ("rack1-[01-02]-ib", ("rack1-01-ib", "rack1-02-ib")),
        ("login1", ("login1",)),
        ("a[7]", ("a7",)),
    ],
)
def test_range_expands_in_order(text: str, hosts: tuple[str, ...]) -> None:
    assert HostRange.parse(text).hosts == hosts


def test_ten_thousand_hosts_are_the_limit() -> None:
    assert len(HostRange.parse("n[00001-10000]").hosts) == 10_000
    with pytest.raises(QuantityError, match="more than 10000 hosts"):
        HostRange.parse("n[00000-10000]")
    with pytest.raises(QuantityError, match="more than 10000 hosts"):
        HostRange.parse("n[000000001-999999999]")


@pytest.mark.parametrize(
    ("text", "why", "remedy"),
    [
        ("", "empty", ""),
        ("dgx[]", "holds no host", ""),
        ("dgx[ ]", "holds no host", ""),
        ("dgx[064-001]", "reversed", "[001-064]"),
        ("dgx[1-010]", "different widths", "[001-010]"),
        ("dgx[001-1000]", "different widths", "[0001-1000]"),
        ("dgx[01-03,02]", "dgx02 is in it twice", ""),
        ("dgx[1,a]", "neither a number", ""),
        ("dgx[1,,2]", "neither a number", ""),
        ("dgx[-1]", "neither a number", ""),
        ("dgx[1-2", "exactly one", ""),
        ("dgx1-2]", "exactly one", ""),
        ("dgx[1-2][3-4]", "exactly one", ""),
        ("DGX[1-2]", "upper-case", "dgx[1-2]"),
        ("1dgx", "not a host name", ""),
        ("dgx_1", "not a host name", ""),
        ("dgx-", "not a host name", ""),
        ("a b", "not a host name", ""),
        ("dgx1.example.com", "dot", "ssh.domain"),
        ("d" * 64, "63 characters", ""),
        ("d" * 62 + "[01-02]", "63 characters", ""),
        ("n[" + ",".join("1" for _ in range(500)) + "]", "longer than 1000", ""),
        ("n[\N{ARABIC-INDIC DIGIT ONE}-2]", "neither a number", ""),
    ],
)
def test_invalid_range_is_refused_with_the_reason(text: str, why: str, remedy: str) -> None:
    with pytest.raises(QuantityError) as caught:
        HostRange.parse(text)
    assert why in caught.value.reason
    assert remedy in caught.value.remedy


SITE = "    system: dgx-h100\n"


def test_controllers_and_login_hosts_may_be_lists(checkout: Checkout) -> None:
    lists = "    controllers: [ctl01, adm[1-2]]\n    login: [login01]\n"
    lists = lists.replace("adm[1-2]", "'adm[1-2]'")
    (site,) = checkout.load(VALID.replace(SITE, SITE + lists)).spec.onprem
    assert site.controllers is not None and site.login is not None
    assert site.controllers.hosts == ("ctl01", "adm1", "adm2")
    assert site.login.hosts == ("login01",)


def test_list_of_one_range_equals_that_range(checkout: Checkout) -> None:
    (one,) = checkout.load(VALID.replace(SITE, f"{SITE}    controllers: 'ctl[01-02]'\n")).spec.onprem
    (many,) = checkout.load(VALID.replace(SITE, f"{SITE}    controllers: ['ctl[01-02]']\n")).spec.onprem
    assert one.controllers == many.controllers


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("[]", "empty list"),
        ("[ctl01, ctl01]", "ctl01 is listed twice"),
        ("['ctl[1-2]', ctl2]", "ctl2 is listed twice"),
        ("[ctl01, '-oProxyCommand=id']", "not a host name"),
        ("[[ctl01]]", "has to be hosts"),
        ("{a: ctl01}", "has to be hosts"),
    ],
)
def test_invalid_host_list_is_refused_with_the_reason(checkout: Checkout, written: str, says: str) -> None:
    finding = checkout.changed(SITE, f"{SITE}    controllers: {written}\n")
    assert finding.field == "onprem[0].controllers"
    assert says in finding.message


def test_editor_schema_accepts_a_range_and_a_list_of_ranges() -> None:
    one, many = TypeAdapter(HostList).json_schema()["anyOf"]
    assert one["type"] == "string"
    assert (many["type"], many["items"]) == ("array", one)
