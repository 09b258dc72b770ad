"""getPolicyDocument: builds an IAM policy document. A pure computation, as in the real provider.

Rules from the documentation of the data source: source documents are merged first (two statements must not
have the same Sid), then the statements, then overrides replace statements of equal Sid.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

from gpufleet.errors import InputError
from gpufleet.lab.aws.provider.handler import Aws
from gpufleet.lab.aws.provider.wire import Props


def get_policy_document(aws: Aws, arguments: Props) -> Props:
    """The document as JSON, indented and minified."""
    merged: list[dict[str, Any]] = []
    head: dict[str, Any] = {}
    sources = [*_documents(arguments, "sourceJson", "sourcePolicyDocuments")]
    overrides = [*_documents(arguments, "overrideJson", "overridePolicyDocuments")]
    for document in sources:
        head |= {key: document[key] for key in ("Version", "Id") if document.get(key)}
        for statement in _statements(document):
            sid = statement.get("Sid")
            if sid and any(item.get("Sid") == sid for item in merged):
                raise InputError(
                    f"two source documents have a statement {sid!r}", remedy="rename one, or override it"
                )
            merged.append(statement)
    for given in arguments.get("statements") or ():
        _override(merged, _statement(given))
    for document in overrides:
        head |= {key: document[key] for key in ("Version", "Id") if document.get(key)}
        for statement in _statements(document):
            _override(merged, statement)
    result: dict[str, Any] = {"Version": arguments.get("version") or head.get("Version") or "2012-10-17"}
    identity = arguments.get("policyId") or head.get("Id")
    if identity:
        result["Id"] = identity
    result["Statement"] = merged
    text = json.dumps(result, indent=2)
    return {
        "id": str(zlib.crc32(text.encode())),
        "json": text,
        "minifiedJson": json.dumps(result, separators=(",", ":")),
        "version": result["Version"],
    }


def _documents(arguments: Props, single: str, several: str) -> Iterable[dict[str, Any]]:
    for text in [arguments.get(single), *(arguments.get(several) or ())]:
        if not text:
            continue
        try:
            loaded = json.loads(text)
        except ValueError as error:
            raise InputError(
                f"{several}: not a JSON document: {error}", remedy="pass policy documents as JSON"
            ) from error
        yield loaded


def _statements(document: dict[str, Any]) -> list[dict[str, Any]]:
    found = document.get("Statement") or []
    return list(found) if isinstance(found, list) else [found]


def _override(statements: list[dict[str, Any]], new: dict[str, Any]) -> None:
    """Replace the statement with the same Sid, or append it."""
    sid = new.get("Sid")
    for index, old in enumerate(statements):
        if sid and old.get("Sid") == sid:
            statements[index] = new
            return
    statements.append(new)


def _statement(given: Props) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if given.get("sid"):
        made["Sid"] = given["sid"]
    made["Effect"] = given.get("effect") or "Allow"
    for key, name in (
        ("principals", "Principal"), ("notPrincipals", "NotPrincipal"), ("actions", "Action"),
        ("notActions", "NotAction"), ("resources", "Resource"), ("notResources", "NotResource"),
    ):  # fmt: skip
        if given.get(key):
            made[name] = _principals(given[key]) if name.endswith("Principal") else _one_or_many(given[key])
    if given.get("conditions"):
        made["Condition"] = _conditions(given["conditions"])
    return made


def _one_or_many(values: list[str]) -> Any:
    """Return AWS' own form: a single value without a list, several sorted as the real provider does."""
    unique = sorted(set(values), reverse=True)
    return unique[0] if len(unique) == 1 else unique


def _principals(given: list[Props]) -> Any:
    """Return `*` for everyone, otherwise identifiers by kind."""
    if any(item["type"] == "*" and "*" in item["identifiers"] for item in given):
        return "*"
    by_kind: dict[str, list[str]] = {}
    for item in given:
        by_kind.setdefault(item["type"], []).extend(item["identifiers"])
    return {kind: _one_or_many(values) for kind, values in sorted(by_kind.items())}


def _conditions(given: list[Props]) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, list[str]]] = {}
    for item in given:
        made.setdefault(item["test"], {}).setdefault(item["variable"], []).extend(item["values"])
    return {
        test: {
            variable: values[0] if len(values) == 1 else values
            for variable, values in sorted(variables.items())
        }
        for test, variables in sorted(made.items())
    }
