#!/usr/bin/python
"""The management controller (BMC) of a node: read, verify its identity, change differences."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc
short_description: Inventory, power cap, boot order and BIOS settings of a node by its BMC
description:
  - Runs on the Ansible host, and connects to the BMC by Redfish or IPMI.
  - Refuses a BMC that does not report the model or serial number of the node, before any change.
options:
  node:
    description: Node that the BMC must belong to.
    type: str
    required: true
  address:
    description: Name or address of the BMC.
    type: str
    required: true
  port:
    description: TCP port.
    type: int
    required: true
  protocol:
    description: Protocol.
    type: str
    choices: [redfish, ipmi]
    required: true
  user:
    description: User of the BMC.
    type: str
    required: true
  password_from:
    description: Variable of Ansible's environment with the password. The password is in no argument, so
      failures can be logged.
    type: str
    required: true
  ca:
    description: File of CA certificates of the BMCs; empty for those of the system.
    type: str
    default: ""
  certificate:
    description: SHA-256 fingerprint of a self-signed BMC certificate, in hexadecimal digits.
    type: str
    default: ""
  model:
    description: Model that the BMC must report; empty to check only the serial number.
    type: str
    default: ""
  serials:
    description: Serial numbers by node; the BMC must report that of this node, if it is listed.
    type: dict
    default: {}
  firmware:
    description: Expected firmware versions, by Id of the component, or by a name that only one has. Compared,
      never flashed.
    type: dict
    default: {}
  power_cap_w:
    description: Power cap of the node in W; 0 does not change the cap.
    type: int
    default: 0
  boot_order:
    description: Boot order by device type; empty does not change the order.
    type: list
    elements: str
    default: []
  bios:
    description: BIOS attributes; staged, and effective from the next boot.
    type: dict
    default: {}
  only:
    description: C(measure) changes nothing and returns a measurement. C(cycle) power cycles the node
      and changes nothing else.
    type: str
    choices: [all, measure, cycle]
    default: all
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Configure the BMC
  gpufleet.rack.bmc:
    node: dgx001
    address: bmc001
    port: 443
    protocol: redfish
    user: admin
    password_from: GPUFLEET_SECRET_BMC_PASSWORD_DC1
    model: DGXH100
  delegate_to: localhost
"""

RETURN = r"""
found:
  description: Model, serial number, power state, versions, power cap and draw, boot order and BIOS attributes
    before the changes.
  type: dict
  returned: success
waits_for_reboot:
  description: BIOS attributes that take effect at the next boot.
  type: list
  returned: success
measurements:
  description: C(bmc_state), in the format of other measurements, with C(only=measure).
  type: dict
  returned: with only=measure
"""

import json
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.ipmi import Ipmi
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.redfish import Connection, Redfish


def plain(text: str) -> str:
    """Only letters and digits: vendors write `DGX H100`, `DGXH100` and `DGX-H100`."""
    return "".join(letter for letter in text.lower() if letter.isalnum())


def identified(params: dict[str, Any], systems: list[dict[str, str]], name: str) -> dict[str, str]:
    """The system of the node. Raises for the BMC of another node."""
    node, model, serials = params["node"], params["model"], params["serials"]
    serial = str(serials.get(node, ""))
    if not model and not serial:
        raise RefusalError(
            f"Cannot check whether {name} belongs to {node}. Give `management.model` or its serial."
        )
    for item in systems:
        owner = next((other for other, number in serials.items() if str(number) == item["serial"]), node)
        if owner != node:
            raise RefusalError(
                f"{name} is the controller of {owner} (serial number {item['serial']}), not of {node}. "
                "Correct the "
                "cable, the controller's address or the order of `bmc`; nothing was changed."
            )
    for item in systems:
        right_model = not model or plain(model) == plain(item["model"])
        if right_model and (not serial or serial == item["serial"]):
            return item
    shown = "; ".join(f"model {i['model'] or 'none'}, serial number {i['serial'] or 'none'}" for i in systems)
    wanted = ", ".join(
        text
        for text in (f"model {model}" if model else "", f"serial number {serial}" if serial else "")
        if text
    )
    raise RefusalError(
        f"{name} is not the controller of {node}: it shows {shown or 'no system'} instead of {wanted}. "
        "Correct the "
        "cable, the address, or what the fleet file says of the node; nothing was changed."
    )


def read(params: dict[str, Any], controller: Redfish | Ipmi, path: str) -> dict[str, Any]:
    """Current values of the requested settings."""
    found: dict[str, Any] = {"power": controller.power(path)}
    if params["only"] == "measure" and isinstance(controller, Redfish):
        found["health"] = controller.health(path)
    if params["firmware"]:
        there = controller.firmware(params["firmware"])
        found["firmware"] = {name: there.get(name, "") for name in params["firmware"]}
    if params["power_cap_w"]:
        found["power_cap_w"], found["cap_resource"] = controller.power_cap(path)
        if found["cap_resource"] and isinstance(controller, Redfish):
            found["power_w"] = controller.power_drawn(found["cap_resource"])
    if params["boot_order"]:
        now, then, resource = controller.boot_order(path, params["boot_order"])
        found |= {"boot_order": now, "wanted_boot_order": then, "boot_resource": resource}
    if params["bios"]:
        there, staged, resource = controller.bios(path)
        found["bios"] = {name: there.get(name) for name in params["bios"]}
        found["staged_bios"] = {name: staged[name] for name in params["bios"] if name in staged}
        found["bios_resource"] = resource
        if missing := [name for name in params["bios"] if name not in there]:
            raise RefusalError(
                f"The BIOS of {params['node']} has no attribute {', '.join(missing)}. Correct "
                "`management.bios`; "
                "nothing was changed."
            )
    return found


def typed(wanted: Any, there: Any) -> Any:
    """A value in the type of the BIOS: the fleet file has text, attributes may be numbers or booleans."""
    text = str(wanted)
    if isinstance(there, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(there, int):
        return int(text) if text.lstrip("-").isdigit() else text
    return text


def differing_bios(params: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Attributes that are neither set nor staged, in the types of the BIOS."""
    wrong = {}
    for name, value in params["bios"].items():
        wanted = typed(value, found["bios"][name])
        if found["staged_bios"].get(name, found["bios"][name]) != wanted:
            wrong[name] = wanted
    return wrong


def change(
    params: dict[str, Any], controller: Redfish | Ipmi, found: dict[str, Any], check: bool
) -> list[str]:
    """Change differences; one line for each change, also in check mode."""
    lines = []
    cap = params["power_cap_w"]
    wrong = differing_bios(params, found) if params["bios"] else {}
    capped = not cap or found["power_cap_w"] == cap
    if not capped and not found["cap_resource"]:
        raise RefusalError(
            f"The controller of {params['node']} offers no cap for the node, neither by EnvironmentMetrics "
            "nor by Power, nor by DCMI where it is asked by IPMI. Remove `management.power_cap`, and cap the "
            "GPUs instead; nothing was changed."
        )
    if wrong and not found["bios_resource"]:
        raise RefusalError(
            f"The BIOS of {params['node']} cannot be set by its controller. Remove `management.bios`; "
            "nothing was changed."
        )
    if not capped:
        lines.append(f"power cap: {found['power_cap_w'] or 'none'} -> {cap} W")
        if not check:
            controller.set_power_cap(found["cap_resource"], cap)
    if params["boot_order"] and found["boot_order"] != found["wanted_boot_order"]:
        before, after = (" ".join(found[name]) for name in ("boot_order", "wanted_boot_order"))
        lines.append(f"boot order: {before} -> {after}")
        if not check:
            controller.set_boot_order(found["boot_resource"], found["wanted_boot_order"])
    if wrong:
        lines += [
            f"BIOS, from the next boot on: {name}: {found['bios'][name]} -> {wrong[name]}" for name in wrong
        ]
        if not check:
            controller.stage_bios(found["bios_resource"], wrong)
    return lines


def waiting(params: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Attributes that take effect at the next boot."""
    return [
        name
        for name, value in params["bios"].items()
        if found["bios"][name] != typed(value, found["bios"][name])
    ]


def connected(params: dict[str, Any]) -> Redfish | Ipmi:
    """The BMC, by its protocol."""
    password = os.environ.get(params["password_from"], "")
    if not password:
        raise RefusalError(
            f"{params['password_from']} is not set: the password of {params['user']} at the "
            "controllers. Set it in "
            "the environment, or in the vault (`ansible-vault edit stacks/<env>/secrets.yml`)."
        )
    where = (params["address"], params["port"], params["user"], password)
    if params["protocol"] == "ipmi":
        return Ipmi(*where)
    return Redfish(Connection(*where, ca=params["ca"], certificate=params["certificate"].lower()))


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Read, verify, change; the result for Ansible."""
    controller = connected(params)
    name = f"{params['address']}:{params['port']}"
    try:
        system = identified(params, controller.systems(), name)
        if params["only"] == "cycle":
            kind = "" if check else controller.cycle(system["path"])
            return {"changed": True, "reset": kind}
        found = read(params, controller, system["path"])
        lines = [] if params["only"] == "measure" else change(params, controller, found, check)
    finally:
        if isinstance(controller, Redfish):
            controller.connection.close()
    found = {key: value for key, value in found.items() if not key.endswith("_resource")}
    found |= {"model": system["model"], "serial": system["serial"]}
    return {
        "changed": bool(lines),
        "found": found,
        "waits_for_reboot": waiting(params, found) if params["bios"] else [],
        "diff": difference(name, "", "".join(f"{line}\n" for line in lines)),
    }


def measured(params: dict[str, Any]) -> dict[str, Any]:
    """The state as a measurement; a refusal is a measurement too."""
    try:
        result = work(params, True)
    except (RefusalError, OSError) as error:
        state = {"rc": 1, "stdout": "", "stderr": str(error)}
    else:
        found = result["found"] | {"waits_for_reboot": result["waits_for_reboot"]}
        state = {"rc": 0, "stdout": json.dumps(found), "stderr": ""}
    return {"changed": False, "measurements": {"bmc_state": state}}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "protocol": {"type": "str", "choices": ["redfish", "ipmi"], "required": True},
            "user": {"type": "str", "required": True},
            # A name, not a secret.
            "password_from": {"type": "str", "required": True, "no_log": False},
            "ca": {"type": "str", "default": ""},
            "certificate": {"type": "str", "default": ""},
            "model": {"type": "str", "default": ""},
            "serials": {"type": "dict", "default": {}},
            "firmware": {"type": "dict", "default": {}},
            "power_cap_w": {"type": "int", "default": 0},
            "boot_order": {"type": "list", "elements": "str", "default": []},
            "bios": {"type": "dict", "default": {}},
            "only": {"type": "str", "choices": ["all", "measure", "cycle"], "default": "all"},
        },
        supports_check_mode=True,
    )
    params = module.params
    if params["only"] == "measure":
        finish(module, lambda: measured(params))
    finish(module, lambda: work(params, module.check_mode))


if __name__ == "__main__":
    main()
