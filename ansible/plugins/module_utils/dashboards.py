"""Grafana dashboards as JSON, from short descriptions of their panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

DATASOURCE = {"type": "prometheus", "uid": "gpufleet-prometheus"}
COLUMNS = 24
"""Width of Grafana's grid."""

_HEIGHTS = {"stat": 4, "timeseries": 8, "bargauge": 8, "table": 8}


@dataclass(frozen=True)
class Panel:
    """A panel: `queries` are pairs of PromQL and legend; `width` of 24 columns.

    `limits` are the thresholds for yellow and red; if the second one is lower, red applies below it.
    `stack` stacks the series of a graph. A table shows the labels `columns`, and the
    value under the title `value`.
    """

    title: str
    kind: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    about: str = ""
    width: int = 12
    limits: tuple[float, float] | None = None
    stack: bool = False
    columns: tuple[str, ...] = ()
    value: str = "value"


def stat(title: str, unit: str, expr: str, *, width: int = 4, **more: Any) -> Panel:
    """A single value."""
    return Panel(title, "stat", unit, ((expr, ""),), width=width, **more)


def graph(title: str, unit: str, *queries: tuple[str, str], **more: Any) -> Panel:
    """A time series graph."""
    return Panel(title, "timeseries", unit, queries, **more)


def rate(metric: str, by: str, how: str = "sum") -> str:
    """Growth of a counter (with its selector) per second, by labels."""
    return f"{how} by ({by}) (rate({metric}[$__rate_interval]))"


@dataclass(frozen=True)
class Dashboard:
    """A dashboard: rows are (heading, panels). With `by_node` it has a node selector."""

    name: str
    title: str
    about: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    by_node: bool = False


def dashboard_json(board: Dashboard) -> dict[str, Any]:
    """JSON for Grafana (schema version 39, Grafana 11 and later)."""
    return {
        "uid": f"gpufleet-{board.name}",
        "title": board.title,
        "description": board.about,
        "tags": ["gpufleet"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "",
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "tags": ["gpufleet"],
                "asDropdown": True,
                "title": "gpufleet",
                "icon": "external link",
                "tooltip": "",
                "url": "",
                "targetBlank": False,
                "includeVars": False,
                "keepTime": True,
            }
        ],
        "templating": {"list": [_nodes()] if board.by_node else []},
        "panels": _panels(board.rows),
    }


def _nodes() -> dict[str, Any]:
    query = 'label_values(up{job="node"}, instance)'
    return {
        "name": "instance",
        "label": "Node",
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": "nodes"},
        "definition": query,
        "refresh": 2,
        "sort": 5,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all", "selected": True},
    }


def _panels(rows: Sequence[tuple[str, tuple[Panel, ...]]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    y = 0
    for heading, panels in rows:
        found.append(
            {
                "id": len(found) + 1,
                "type": "row",
                "title": heading,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
            }
        )
        y += 1
        x = tallest = 0
        for panel in panels:
            if x + panel.width > COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            height = _HEIGHTS[panel.kind]
            grid = {"x": x, "y": y, "w": panel.width, "h": height}
            found.append({"id": len(found) + 1, "gridPos": grid} | _panel(panel))
            x, tallest = x + panel.width, max(tallest, height)
        y += tallest
    return found


def _panel(panel: Panel) -> dict[str, Any]:
    now = panel.kind != "timeseries"
    table = panel.kind == "table"
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": DATASOURCE,
                "expr": expr,
                "legendFormat": legend or "__auto",
                "instant": now,
                "range": not now,
                "format": "table" if table else "time_series",
            }
            for index, (expr, legend) in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
        "transformations": _columns(panel) if table else [],
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.limits is not None:
        first, last = panel.limits
        if first <= last:
            steps += [{"color": "yellow", "value": first}, {"color": "red", "value": last}]
        else:
            steps = [
                {"color": "red", "value": None},
                {"color": "yellow", "value": last},
                {"color": "green", "value": first},
            ]
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": steps},
        "color": {"mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"},
    }
    if panel.unit in ("percentunit", "percent"):
        defaults |= {"min": 0, "max": 1 if panel.unit == "percentunit" else 100}
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stack else 0,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stack else "none", "group": "A"},
        }
    return defaults


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "timeseries":
        return {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    if panel.kind == "table":
        return {"showHeader": True, "frameIndex": 0}
    reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    if panel.kind == "bargauge":
        return {
            "reduceOptions": reduce,
            "orientation": "horizontal",
            "displayMode": "basic",
            "valueMode": "color",
            "namePlacement": "auto",
            "showUnfilled": True,
            "sizing": "auto",
            "minVizWidth": 8,
            "minVizHeight": 16,
            "maxVizHeight": 300,
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
        }
    return {
        "reduceOptions": reduce,
        "orientation": "auto",
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "auto",
        "justifyMode": "auto",
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
    }


def _columns(panel: Panel) -> list[dict[str, Any]]:
    """Columns of a table, in order, with readable names."""
    order = {name: index for index, name in enumerate((*panel.columns, "Value"))}
    return [
        {"id": "filterFieldsByName", "options": {"include": {"names": list(order)}}},
        {
            "id": "organize",
            "options": {"indexByName": order, "renameByName": {"Value": panel.value}, "excludeByName": {}},
        },
    ]
