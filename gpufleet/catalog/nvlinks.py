"""How many NVLinks of a GPU are active when nothing is wrong, by the product name that nvidia-smi prints."""

from functools import cache
from pathlib import Path

from gpufleet.catalog.models import Fact
from gpufleet.catalog.store import read_entries


class NvlinkCount(Fact):
    """A product name without `NVIDIA` and `Tesla`, and its active NVLinks.

    A product that is not listed was in none of the sources read.
    """

    product: str
    active: int
    source: str


@cache
def nvlink_counts() -> tuple[NvlinkCount, ...]:
    """Return every product whose number of active links was read."""
    return read_entries(Path(__file__).parent / "data" / "nvlinks.json", NvlinkCount, "nvlinks")


def active_nvlinks() -> dict[str, int]:
    """Return the active links by product, such as `{"H100 PCIe": 12}`."""
    return {item.product: item.active for item in nvlink_counts()}
