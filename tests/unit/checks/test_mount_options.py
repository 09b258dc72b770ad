"""Sources and mount options of a rack's file systems."""

from __future__ import annotations

import pytest

from tests.unit.checks.fleets import Judge

HOME = "onprem.0.storage.0"
SOURCES = {"beegfs": "mgmtd01", "weka": "weka01,weka02/scratch", "gpfs": "scratch"}


@pytest.mark.parametrize(
    ("kind", "source", "good"),
    [
        ("nfs", "nas01", "nas01:/export/home"),
        ("nfs", "10.0.0.1@tcp:/home", "nas01:/export/home"),
        ("lustre", "nas01:/export", "10.0.0.1@tcp:/scratch"),
        ("beegfs", "mgmtd01:/scratch", "mgmtd01"),
        ("beegfs", "mgmtd01,mgmtd02", "mgmtd01"),
        ("weka", "weka01:/scratch", "weka01,weka02/scratch"),
        ("weka", "weka01", "weka01,weka02/scratch"),
        ("weka", "weka01,/scratch", "weka01,weka02/scratch"),
        ("gpfs", "/dev/scratch", "scratch"),
        ("gpfs", "nsd01:/scratch", "scratch"),
    ],
)
def test_source_of_another_file_system_type_is_refused(
    judge: Judge, kind: str, source: str, good: str
) -> None:
    state = {"onprem.0.slurm.state": "nas02:/export/slurm"}
    finding = judge(state | {f"{HOME}.kind": kind, f"{HOME}.source": source}).only("mount-source")
    assert good in finding.remedy
    assert judge(state | {f"{HOME}.kind": kind, f"{HOME}.source": good}).rules == set()


def test_invalid_source_of_the_slurm_state_is_reported_once(judge: Judge) -> None:
    judge({f"{HOME}.kind": "nfs", f"{HOME}.source": "nas01"}).only("mount-source")


def _mounted(kind: str, *options: str) -> dict[str, object]:
    """Another file system of a kind on the rack, with options."""
    store = {"name": "fast", "kind": kind, "source": SOURCES[kind], "mount": "/fast"}
    return {"onprem.0.storage.+": store | {"options": list(options)}}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("beegfs", ("noatime", "cfgFile=/etc/beegfs/scratch.conf", "connMgmtdPort=8008", "grpid")),
        ("weka", ("net=ib0", "net=ib1/10.0.0.7/16/10.0.0.1", "num_cores=2", "readcache", "acl")),
        ("weka", ("core=1", "core=2", "net=mlnx0", "dedicated_mode=none", "inode_bits=64")),
        ("gpfs", ("ro", "relatime", "nomtime", "useNSDserver=asfound")),
        ("gpfs", ()),
    ],
)
def test_options_documented_by_the_vendor_pass(judge: Judge, kind: str, options: tuple[str, ...]) -> None:
    assert judge(_mounted(kind, *options)).rules == set()


@pytest.mark.parametrize(
    ("kind", "option", "offered"),
    [
        ("beegfs", "cfgfile=/etc/x", "cfgFile"),
        ("weka", "num_core=2", "num_cores"),
        ("gpfs", "usensdserver=always", "useNSDserver"),
        ("gpfs", "num_cores=2", "use one of atime, mtime"),
    ],
)
def test_unknown_option_is_refused_with_the_nearest(
    judge: Judge, kind: str, option: str, offered: str
) -> None:
    finding = judge(_mounted(kind, "noatime", option)).only("mount-options")
    assert finding.field == "onprem[0].storage[1].options[1]"
    assert finding.value == option
    assert offered in finding.remedy


@pytest.mark.parametrize(
    ("kind", "option", "wants"),
    [
        ("beegfs", "logLevel=9", "[0-5]"),
        ("beegfs", "cfgFile=beegfs.conf", "an absolute path"),
        ("weka", "num_cores=two", "a whole number"),
        ("weka", "num_cores", "a whole number"),
        ("weka", "net=ib0/16", "<device>"),
        ("gpfs", "useNSDserver=sometimes", "always|asfound"),
        ("gpfs", "noatime=1", "write 'noatime'"),
    ],
)
def test_invalid_option_value_is_refused(judge: Judge, kind: str, option: str, wants: str) -> None:
    assert wants in judge(_mounted(kind, option)).only("mount-options").remedy


@pytest.mark.parametrize("kind", sorted(SOURCES))
@pytest.mark.parametrize("option", ["suid", "dev", "connDisableAuthentication=1", "_netdev", "x-mount.mkdir"])
def test_insecure_options_and_options_of_the_role_are_refused(judge: Judge, kind: str, option: str) -> None:
    assert judge(_mounted(kind, option)).only("mount-options").remedy == "remove it"


@pytest.mark.parametrize(
    ("kind", "option", "why"),
    [
        ("gpfs", "dev=scratch", "derived from `source`"),
        ("gpfs", "dev", "enables device files"),
        ("weka", "dev=scratch", "enables device files"),
    ],
)
def test_device_of_gpfs_is_its_source(judge: Judge, kind: str, option: str, why: str) -> None:
    assert why in judge(_mounted(kind, option)).only("mount-options").message


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("beegfs", ("ro", "rw")),
        ("beegfs", ("noatime", "noatime")),
        ("beegfs", ("logLevel=3", "logLevel=4")),
        ("weka", ("readcache", "writecache")),
        ("weka", ("core=1", "num_cores=2")),
        ("gpfs", ("mtime", "nomtime")),
    ],
)
def test_conflicting_options_are_refused(judge: Judge, kind: str, options: tuple[str, ...]) -> None:
    finding = judge(_mounted(kind, *options)).only("mount-options")
    assert finding.field == "onprem[0].storage[1].options" and "keep one" in finding.remedy


@pytest.mark.parametrize("option", ["no atime", "a,b", "-o", "net=$(id)", "cfgFile=/etc/../x"])
def test_malformed_option_never_reaches_fstab(option: str) -> None:
    from pydantic import ValidationError

    from gpufleet.spec.storage import OnPremStorage

    with pytest.raises(ValidationError):
        OnPremStorage(name="fast", kind="weka", source="w/fs", mount="/fast", options=(option,))


@pytest.mark.parametrize("kind", ["nfs", "lustre"])
def test_options_of_nfs_and_lustre_are_refused_since_the_role_sets_them(judge: Judge, kind: str) -> None:
    source = {"nfs": "nas02:/x", "lustre": "10.0.0.1@tcp:/x"}[kind]
    store = {"name": "fast", "kind": kind, "source": source, "mount": "/fast", "options": ["noatime"]}
    finding = judge({"onprem.0.storage.+": store}).only("mount-options")
    assert f"{kind}_client_options" in finding.remedy


def test_parallel_file_system_over_another_one_is_refused(judge: Judge) -> None:
    changes = _mounted("weka")
    changes["onprem.0.storage.+"]["mount"] = "/shared/home/x"  # type: ignore[index]
    changes[f"{HOME}.mount"] = "/shared/home"
    judge(changes).only("mount-overlap")
