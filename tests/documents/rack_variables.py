"""docs/reference/rack_variables.md, from the variables, argument_specs, the groups and the secrets."""

from __future__ import annotations

import sys
from collections import defaultdict

from gpufleet.racks.rack_groups import RACK_GROUPS
from gpufleet.racks.secrets import SECRETS
from gpufleet.racks.variables import VARIABLES, Variable
from tests.documents.roles import kind_of, meaning_of, options

_HEADER = """# What roles get

The inventory of `gpufleet inventory` and `gpufleet configure`: the groups that playbooks name as their
hosts, and the variables that roles get from the fleet file, the catalog and the software channel. A role
has more variables, with defaults of its own; its README lists them, and the keys of items. A variable that
the plan has nothing to say about is left out, and the role's default holds.

This page is written by `make docs`; a test keeps it current.
"""

_SCOPES = {
    "fleet": "all hosts, cloud nodes too",
    "site": "every host of a rack site",
    "host": "single hosts, each its own",
}


def reference() -> str:
    """The page as Markdown."""
    parts = [_HEADER, "## Groups\n", "| group | who is in it |\n|---|---|"]
    parts += [f"| `{name}` | {who} |" for name, who in RACK_GROUPS.items()]
    parts += ["", "## Secrets\n", _secrets(), "", "## Variables\n"]
    parts += [f"- **{scope}**: {who}" for scope, who in _SCOPES.items()]
    by_role: dict[str, list[Variable]] = defaultdict(list)
    for variable in VARIABLES:
        by_role[variable.role].append(variable)
    for role, variables in by_role.items():
        known = options(role)
        parts += ["", f"### {role}\n", "| variable | type | for | meaning |\n|---|---|---|---|"]
        parts += [
            f"| `{item.full_name}` | {kind_of(known[item.full_name])} | {item.scope} "
            f"| {meaning_of(known[item.full_name])} |"
            for item in variables
        ]
    return "\n".join(parts) + "\n"


def _secrets() -> str:
    rows = [
        "Secrets are in no inventory. Playbooks read them from the environment of Ansible, where",
        "`gpufleet configure` puts them from the vault file or from its own environment; see",
        "[the guide](../guide/onprem.md#secrets).\n",
        "| variable | environment | what |\n|---|---|---|",
    ]
    rows += [f"| `{item.variable}` | `{item.prefix}_<SITE>` | {item.meaning} |" for item in SECRETS]
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(reference())
