"""Pyxis: a real SPANK plugin for Debian's Slurm that knows Pyxis' first option and starts no container.

It is compiled when the rack starts; without a compiler the repository has no Pyxis.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vendor.deb import Package

VERSION = "0.24.0-1"
LIBRARY = "usr/lib/x86_64-linux-gnu/slurm/spank_pyxis.so"
# Slurm refuses a plugin that was built for another release: bookworm has 22.05.
SOURCE = """\
#include <stddef.h>
#include <string.h>

typedef struct spank_handle *spank_t;
typedef int (*spank_opt_cb_f)(int val, const char *optarg, int remote);
struct spank_option {
    char *name; char *arginfo; char *usage; int has_arg; int val; spank_opt_cb_f cb;
};
int spank_setenv(spank_t spank, const char *var, const char *val, int overwrite);

const char plugin_name[] = "pyxis";
const char plugin_type[] = "spank";
const unsigned int plugin_version = 22 << 16 | 5 << 8 | 8;
const unsigned int spank_plugin_version = 1;

static char *image;

static int chosen(int val, const char *optarg, int remote) { image = strdup(optarg); return 0; }

struct spank_option spank_options[] = {
    {"container-image", "[USER@][REGISTRY#]IMAGE[:TAG]|PATH", "[pyxis] the image to use", 1, 0, chosen},
    {NULL, NULL, NULL, 0, 0, NULL},
};

int slurm_spank_task_init(spank_t spank, int ac, char **av)
{
    return image ? spank_setenv(spank, "PYXIS_IMAGE", image, 1) : 0;
}
"""


def packages() -> Iterator[Package]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return
    with tempfile.TemporaryDirectory() as name:
        built = Path(name) / "spank_pyxis.so"
        command = [compiler, "-shared", "-fPIC", "-O1", "-x", "c", "-o", str(built), "-"]
        subprocess.run(command, input=SOURCE, text=True, check=True)
        yield Package(
            "nvslurm-plugin-pyxis",
            VERSION,
            "enroot (>= 3.1.0)",
            files={
                LIBRARY: built.read_bytes(),
                "usr/share/pyxis/pyxis.conf": f"required /{LIBRARY}\n",
            },
        )
