"""Render the templates of a `gpufleet.rack.files` task here, and send all files in one round trip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.template import trust_as_template

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]
    """The part that runs on the controller."""

    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Replace `template`, `source` and `shared` of each item by its text, and run the module."""
        task_vars = task_vars or {}
        super().run(tmp, task_vars)
        items = self._task.args.get("files")
        if not isinstance(items, list):
            raise AnsibleActionFail("`files` has to be a list of files.")
        ready = [self._ready(dict(item), task_vars) for item in items if boolean(item.get("when", True))]
        return dict(
            self._execute_module(
                module_name="gpufleet.rack.files",
                module_args=self._task.args | {"files": ready, "diff": self._task.diff},
                task_vars=task_vars,
            )
        )

    def _ready(self, item: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        item.pop("when", None)
        if "template" in item:
            item["content"] = self._render(str(item.pop("template")), str(item.get("path", "")), task_vars)
        elif "source" in item:
            item["content"] = Path(self._find("files", str(item.pop("source")))).read_text()
        elif "shared" in item:
            item["content"] = self._shared(str(item.pop("shared")))
        return item

    @staticmethod
    def _shared(name: str) -> str:
        """A file of the collection's module_utils that a host program uses too."""
        path = Path(__file__).parents[1] / "module_utils" / name
        if path.name != name or not path.is_file():
            raise AnsibleActionFail(f"{name} is not among the collection's module_utils.")
        return path.read_text()

    def _find(self, folder: str, name: str) -> str:
        try:
            return str(self._find_needle(folder, name))
        except AnsibleError as error:
            raise AnsibleActionFail(f"{name} is not in the role's {folder}/: {error}") from error

    def _render(self, name: str, path: str, task_vars: dict[str, Any]) -> str:
        source = self._find("templates", name)
        text = trust_as_template(self._loader.get_text_file_contents(source))
        folders = [Path(source).parent, *map(Path, task_vars.get("ansible_search_path", []))]
        searched = [str(found) for folder in folders for found in (folder / "templates", folder)]
        templar = self._templar.copy_with_new_env(searchpath=searched, available_variables=task_vars)
        rendered = templar.template(
            text, escape_backslashes=False, overrides={"trim_blocks": True, "lstrip_blocks": False}
        )
        return str(rendered or "")
