"""The documentation of the collection's modules matches their options."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.unit.ansible.collection.conftest import PLUGINS, load

MODULES = sorted(path.stem for path in (PLUGINS / "modules").glob("*.py"))


class SpecError(Exception):
    """Carries the argument spec out of a module's main()."""

    def __init__(self, spec: dict[str, Any], check_mode: bool) -> None:
        self.spec, self.check_mode = spec, check_mode


def spec_of(name: str, monkeypatch: pytest.MonkeyPatch) -> SpecError:
    module = load(name)

    def capture(*, argument_spec: dict[str, Any], supports_check_mode: bool = False, **_: Any) -> None:
        raise SpecError(argument_spec, supports_check_mode)

    monkeypatch.setattr(module, "AnsibleModule", capture)
    with pytest.raises(SpecError) as found:
        module.main()
    return found.value


def compare(documented: dict[str, Any], taken: dict[str, Any], where: str) -> None:
    assert documented.keys() == taken.keys(), where
    for name, option in taken.items():
        text = documented[name]
        here = f"{where}.{name}"
        assert text.get("type", "str") == option.get("type", "str"), here
        assert text.get("elements") == option.get("elements"), here
        assert text.get("default") == option.get("default"), here
        assert bool(text.get("required")) == bool(option.get("required")), here
        assert text.get("choices") == option.get("choices"), here
        assert text["description"], here
        if "options" in option:
            compare(text["suboptions"], option["options"], here)


@pytest.mark.parametrize("name", MODULES)
def test_documented_options_match_the_argument_spec(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = spec_of(name, monkeypatch)
    documentation = yaml.safe_load(load(name).DOCUMENTATION)
    assert documentation["module"] == name
    compare(documentation.get("options", {}), found.spec, name)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_supports_check_mode_and_has_examples(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spec_of(name, monkeypatch).check_mode is True
    examples = yaml.safe_load(load(name).EXAMPLES)
    taken = spec_of(name, monkeypatch).spec
    for task in examples:
        used = task[f"gpufleet.rack.{name}"] or {}
        assert set(used) <= set(taken)


def test_collection_lists_its_modules() -> None:
    text = (PLUGINS.parent / "README.md").read_text(encoding="utf-8")
    for name in MODULES:
        assert f"| `{name}` |" in text
