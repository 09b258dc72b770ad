"""Packages: comparison with dpkg, calls of apt, and error messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils import apt
from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
HELD, WHOLE = "hi \tnvidia-open\t580.159.03-1\n", "ii \tmunge\t0.5.15-2\n"
MADISON = """\
nvidia-open | 595.91.07-1 | http://packages.rack/vendor ./ Packages
nvidia-open | 580.159.03-1 | http://packages.rack/vendor ./ Packages
munge | 0.5.15-2 | http://packages.rack/debian bookworm/main amd64 Packages
munge | 0.5.15-2 | http://packages.rack/debian bookworm/main Sources
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load("packages")
    monkeypatch.setattr(apt, "STAMP", tmp_path / "apt.json")
    monkeypatch.setattr(apt, "POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(module, "read_automatic", lambda _text: set())
    return module


@pytest.fixture
def host(programs: Programs, tmp_path: Path) -> Programs:
    """A host whose dpkg answers from a file, which its apt-get appends to."""
    (tmp_path / "dpkg").write_text(WHOLE)
    programs.add("dpkg-query", f"cat {tmp_path}/dpkg")
    programs.add("apt-cache", f"cat <<'END'\n{MADISON}END")
    programs.add(
        "apt-get",
        f"""case "$*" in update*|*--simulate*) exit 0;; esac
        test -x {tmp_path}/policy-rc.d && {tmp_path}/policy-rc.d; [ $? = 101 ] || exit 3
        for word in "$@"; do case "$word" in
          *=*.*) case "$word" in *::*) ;; *)
            printf 'ii \\t%s\\t%s\\n' "${{word%%=*}}" "${{word#*=}}" >>{tmp_path}/dpkg;; esac;;
        esac; done""",
    )
    programs.add(
        "apt-mark",
        f"""case "$1" in
          hold) sed -i "s/^ii \\t$2/hi \\t$2/" {tmp_path}/dpkg;;
          unhold) sed -i "s/^hi \\t$2/ii \\t$2/" {tmp_path}/dpkg;;
        esac""",
    )
    return programs


def test_installed_packages_are_unchanged_and_apt_is_not_called(
    packages: ModuleType, host: Programs, run: Run
) -> None:
    answer = run(packages, names=["munge", "munge=0.5.*"])
    assert answer["changed"] is answer["moved"] is False
    assert host.called("apt") == []


def test_installed_packages_are_held_without_a_transaction(
    packages: ModuleType, host: Programs, run: Run, tmp_path: Path
) -> None:
    predicted = run(packages, check=True, names=["munge"], hold=["munge*"])
    answer = run(packages, names=["munge"], hold=["munge*"])
    assert predicted["changed"] is answer["changed"] is True
    assert predicted["moved"] is answer["moved"] is False
    assert host.called("apt") == ["apt-mark hold munge"]


def test_newest_matching_version_is_installed_and_held(
    packages: ModuleType, host: Programs, run: Run
) -> None:
    predicted = run(packages, check=True, names=["nvidia-open=580.159.03-*"], hold=["nvidia-open"])
    assert [call for call in host.called("apt-get") if "--simulate" not in call] == []
    host.log.unlink()
    answer = run(packages, names=["nvidia-open=580.159.03-*"], hold=["nvidia-open"])
    assert predicted["changed"] is answer["changed"] is True
    assert predicted["moved"] is answer["moved"] is True
    assert host.called("apt-get install")[0].endswith(" nvidia-open=580.159.03-1")
    assert host.called("apt-mark") == ["apt-mark hold nvidia-open"]
    assert answer["after"][0] == "nvidia-open 580.159.03-1 held"
    assert run(packages, names=["nvidia-open=580.159.03-*"], hold=["nvidia-open"])["changed"] is False


def test_held_package_is_upgraded_and_held_again(
    packages: ModuleType, host: Programs, run: Run, tmp_path: Path
) -> None:
    # Unlisted packages of a driver depend on others of the same version: apt does not upgrade held ones.
    (tmp_path / "dpkg").write_text(HELD + "hi \tlinux-image\t6.1-1\n")
    answer = run(packages, names=["nvidia-open=595.*"], hold=["nvidia-*"])
    assert host.called("apt-mark") == ["apt-mark unhold nvidia-open", "apt-mark hold nvidia-open"]
    assert answer["after"][0] == "nvidia-open 595.91.07-1 held"
    assert "hi \tlinux-image" in (tmp_path / "dpkg").read_text()


def test_held_package_stays_held_when_apt_fails(
    packages: ModuleType, host: Programs, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "dpkg").write_text(HELD)
    host.add("apt-get", "echo E: no >&2; exit 100")
    assert run(packages, names=["nvidia-open=595.*"], hold=["nvidia-*"])["failed"] is True
    assert (tmp_path / "dpkg").read_text() == HELD


def test_services_do_not_start_during_an_install_and_may_afterwards(
    packages: ModuleType, host: Programs, run: Run, tmp_path: Path
) -> None:
    # The apt-get of this host fails unless policy-rc.d denies starts.
    assert run(packages, names=["nvidia-open=595.*"])["changed"] is True
    assert not (tmp_path / "policy-rc.d").exists()


def test_existing_policy_file_is_kept(packages: ModuleType, host: Programs, run: Run, tmp_path: Path) -> None:
    (tmp_path / "policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (tmp_path / "policy-rc.d").chmod(0o755)
    run(packages, names=["nvidia-open=595.*"])
    assert (tmp_path / "policy-rc.d").read_text() == "#!/bin/sh\nexit 101\n"


def test_unavailable_version_is_refused_with_the_available_ones(
    packages: ModuleType, host: Programs, run: Run
) -> None:
    answer = run(packages, names=["nvidia-open=570.1-*"])
    assert answer["failed"]
    assert "nvidia-open in version 570.1-*" in answer["msg"] and "595.91.07-1" in answer["msg"]
    assert "nothing was installed" in answer["msg"]
    assert host.called("apt-get install") == []


def test_unreachable_repository_is_not_reported_as_a_missing_package(
    packages: ModuleType, host: Programs, run: Run
) -> None:
    host.add("apt-get", "echo 'W: Failed to fetch http://packages.rack/vendor/Packages' >&2; exit 0")
    host.add("apt-cache", "exit 0")
    answer = run(packages, names=["nvidia-open=580.159.03-*"])
    assert answer["failed"]
    assert "http://packages.rack/vendor" in answer["msg"] and "reachable" in answer["msg"]


def test_lock_timeout_is_reported(packages: ModuleType, host: Programs, run: Run) -> None:
    host.add(
        "apt-get", "echo 'E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by 17' >&2; exit 100"
    )
    answer = run(packages, names=["nvidia-open=580.159.03-*"], lock_timeout_s=0)
    assert answer["failed"]
    assert "lock-frontend" in answer["msg"] and "run again" in answer["msg"]


def test_leftovers_of_a_broken_run_are_configured_first(
    packages: ModuleType, host: Programs, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "dpkg").write_text("iU \tmunge\t0.5.15-2\n")
    host.add("dpkg", f"sed -i s/iU/ii/ {tmp_path}/dpkg")
    assert run(packages, check=True, names=["munge"])["changed"] is True
    assert host.called("dpkg --configure") == []
    answer = run(packages, names=["munge"])
    assert answer["changed"] is True
    assert len(host.called("dpkg --configure -a")) == 1
    assert host.called("apt-get install") == []
    assert run(packages, names=["munge"])["changed"] is False


def test_version_patterns_match_whole_versions() -> None:
    wanted = apt.PackageRequest.of("doca-ofed=3.4.0-*")
    assert wanted.name == "doca-ofed"
    assert wanted.suits("3.4.0-26.04.0.8.6.0")
    assert not wanted.suits("3.4.01-1") and not wanted.suits("13.4.0-1")
    assert apt.PackageRequest.of("munge").suits("anything")


def test_dpkg_states_are_parsed(packages: ModuleType) -> None:
    text = HELD + WHOLE + "un \tgone\t\nrc \told\t1\niU \tbroken\t2\niHR\tworse\t3\n"
    found = packages.parse_dpkg(text)
    assert set(found) == {"nvidia-open", "munge", "broken", "worse"}
    assert found["nvidia-open"].held and not found["munge"].held
    assert [found[name].whole for name in ("munge", "broken", "worse")] == [True, False, False]


def test_lists_are_read_again_when_repositories_change(
    packages: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert apt.stale()
    apt.write_stamp()
    assert not apt.stale()
    monkeypatch.setattr(apt, "source_digest", lambda: "other")
    assert apt.stale()
    apt.write_stamp()
    now = apt.time.time()
    monkeypatch.setattr(apt.time, "time", lambda: now + apt.LISTS_AGE_S + 1)
    assert apt.stale()


@pytest.mark.parametrize(
    ("reported", "words"),
    [
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "disk is full"),
        ("E: Failed to fetch http://x/y.deb  Connection refused", "does not answer"),
        ("E: Unable to correct problems, you have held broken packages.", "apt could not do it"),
    ],
)
def test_apt_errors_are_explained(reported: str, words: str) -> None:
    assert words in apt.explain(reported)
    assert "run again" in apt.explain(reported)


def test_automatically_installed_packages_come_from_the_apt_list(tmp_path: Path) -> None:
    text = "Package: a\nArchitecture: amd64\nAuto-Installed: 1\n\nPackage: b\nAuto-Installed: 0\n"
    assert load("packages").read_automatic(text) == {"a"}


# As apt 2.6 of Debian 12 prints it.
SIMULATED = """\
Reading package lists...
The following packages will be REMOVED:
  libopenmpi3 ucx
Remv libopenmpi3 [4.1.4-3] [openmpi-bin:amd64 ]
Remv ucx:amd64 [1.13.1-1]
Inst munge [0.5.15-2] (0.5.14-1 Debian:12 [amd64])
Inst nvidia-open [580.159.03-1] (595.91.07-1 vendor [amd64]) []
Inst libmunge2 (0.5.15-2 Debian:12 [amd64])
Conf nvidia-open (595.91.07-1 vendor [amd64])
"""


@pytest.fixture
def removing(host: Programs, tmp_path: Path) -> Programs:
    """The same where apt would remove two packages and downgrade one."""
    (tmp_path / "simulated").write_text(SIMULATED)
    host.add(
        "apt-get",
        f"""case "$*" in
          *--simulate*) cat {tmp_path}/simulated;;
          *--no-remove*) echo 'E: Packages need to be removed but remove is disabled.' >&2; exit 100;;
          *) exit 4;;
        esac""",
    )
    host.add("dpkg", '[ "$2" = 0.5.14-1 ]')
    return host


@pytest.mark.parametrize("absent", [[], ["munge"]])
def test_removals_that_the_role_does_not_name_are_refused(
    packages: ModuleType, removing: Programs, run: Run, absent: list[str]
) -> None:
    reported = run(packages, names=["nvidia-open=595.*"], absent=absent)["msg"]
    assert "apt would also remove libopenmpi3 ucx, which the role does not name" in reported
    assert reported.endswith("nothing was installed.")
    asked = [call for call in removing.called("apt-get install") if "--simulate" not in call]
    assert all("--no-remove" in call for call in asked)


def test_check_mode_shows_removals_and_downgrades(
    packages: ModuleType, removing: Programs, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "dpkg").write_text(HELD + "ii \tlibopenmpi3\t4.1.4-3\nii \tucx\t1.13.1-1\n")
    answer = run(packages, check=True, names=["nvidia-open=595.*"], absent=["ucx"])
    shown = answer["diff"][0]["after"].splitlines()
    assert "ucx would be removed" in shown
    assert "libopenmpi3 would be removed, which the run refuses" in shown
    assert "munge would be downgraded from 0.5.15-2 to 0.5.14-1" in shown
    assert not [line for line in shown if "nvidia-open would" in line]


def test_check_mode_passes_where_pins_are_still_missing(
    packages: ModuleType, removing: Programs, run: Run
) -> None:
    removing.add(
        "apt-get", "echo 'E: Unable to correct problems, you have held broken packages.' >&2; exit 100"
    )
    assert run(packages, check=True, names=["nvidia-open=595.*"])["changed"] is True


def test_packages_that_running_work_uses_change_on_drained_nodes_only(
    packages: ModuleType, host: Programs, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(change: str, *, check: bool) -> None:
        raise RefusalError(f"{change} under work")

    monkeypatch.setattr(packages, "take_out_of_service", refuse)
    for check in (True, False):
        answer = run(packages, check=check, names=["nvidia-open=595.*"], guard="libraries change")
        assert answer["msg"] == "libraries change under work"
    assert [call for call in host.called("apt-get install") if "--simulate" not in call] == []
    # Nothing changes, or only which packages are held: no guard is needed.
    assert run(packages, names=["munge"], hold=["munge"], guard="libraries change")["changed"] is True
