"""The variables of the inventory, named as the roles define them, with one entry each.

The entries are the contract between the plan and `ansible/roles`: the inventory is made of them, and
a test compares them with the argument_specs of the roles, which say what each means.
docs/reference/rack_variables.md is written from both.
"""

from gpufleet.racks.variables.registry import VARIABLES, fleet_values, host_values, site_values
from gpufleet.racks.variables.variable import LaunchedSite, Variable

__all__ = ["VARIABLES", "LaunchedSite", "Variable", "fleet_values", "host_values", "site_values"]
