"""What our strategy plugin puts in the place of mitogen's own, beside mitogen's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
# In a process of its own: both Ansible's loaders and the plugin change what is imported.
COMPARED = """
import importlib.util, sys
from pathlib import Path
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader()
import ansible.modules
from ansible_mitogen import loaders, module_finder
theirs = module_finder.scan
spec = importlib.util.spec_from_file_location("plugin", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
ours = module_finder.scan
assert ours is not theirs
utilities = (str(Path(ansible.modules.__file__).parents[1] / "module_utils"),)
modules = [*Path(sys.argv[2]).glob("*.py"), *Path(ansible.modules.__file__).parent.glob("[a-d]*.py")]
for module in modules:
    path = str(module)
    assert theirs("ansible.module", path, utilities) == ours("ansible.module", path, utilities), path
print(len(modules))
"""


def test_a_module_takes_along_what_mitogen_itself_finds_that_it_needs() -> None:
    plugin = ROOT / "gpufleet" / "onprem" / "configure" / "strategy" / "mitogen_unpinned.py"
    collections = ROOT / "ansible" / "collections"
    modules = collections / "ansible_collections" / "gpufleet" / "rack" / "plugins" / "modules"
    done = subprocess.run(
        [sys.executable, "-c", COMPARED, str(plugin), str(modules)],
        env=os.environ | {"ANSIBLE_COLLECTIONS_PATH": str(collections)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 40
