"""`gpufleet` with a stand-in for ansible-playbook that never ends, and racks on this machine.

Run as `python -m tests.e2e.stand_ins configure ...`; the stand-in is the file that TEST_PLAYBOOK names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tests.unit.cli.configure_local import make_local

_PLAYBOOK = """#!{python}
# Begins a worker that leads a session of its own, as Ansible's do, and says on which host it is.
import os, subprocess, sys, time
if sys.argv[1:] != ["worker"]:
    subprocess.Popen([sys.executable, __file__, "worker"], start_new_session=True)
else:
    open(__file__ + ".working", "w").close()
time.sleep(600)
"""


def write_playbook(path: Path) -> None:
    """Write the stand-in. While it runs, the file `<path>.working` exists."""
    path.write_text(_PLAYBOOK.format(python=sys.executable))
    path.chmod(0o755)


def _stand_in() -> None:
    import ansible_runner

    run = ansible_runner.run

    def with_stand_in(**options: Any) -> Any:
        return run(**options, binary=os.environ["TEST_PLAYBOOK"])

    ansible_runner.run = with_stand_in


if __name__ == "__main__":
    from gpufleet.cli import entry

    make_local(frozenset())
    _stand_in()
    sys.exit(entry.main())
