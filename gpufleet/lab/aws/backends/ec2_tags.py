"""Tags of one EC2 resource: moto's own function searches those of all with a regular expression.

With hundreds of resources that took longer than everything else in a description of some of them.
"""

from __future__ import annotations

from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix


def get_tags(self: TaggedEC2Resource) -> list[dict[str, str]]:
    """Return the tags in moto's form."""
    kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(self.id), "") if self.id else ""
    found = self.ec2_backend.tags.get(self.id, {}) if self.id else {}
    return [
        {"resource_id": self.id, "key": key, "value": value, "resource_type": kind}
        for key, value in found.items()
    ]


TaggedEC2Resource.get_tags = get_tags
