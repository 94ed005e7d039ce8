"""Check that a Prometheus has a number for every panel and rule: `python -m deploy.check_dashboards --help`.

Needs the standard library only, so that it runs where nothing is installed. Knows the Prometheus API and Grafana's
files, and nothing of Dragoman's metrics.
"""

import argparse
import json
import math
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

DASHBOARDS: Final = Path(__file__).parent / "grafana" / "dashboards"
_SECONDS: Final = 10.0
_RATE_INTERVAL: Final = {"$__rate_interval": "1m"}


class Expression(NamedTuple):
    """A query of a dashboard's panel."""

    panel: str
    text: str


def expressions(dashboard: dict[str, Any], values: Mapping[str, str] = _RATE_INTERVAL) -> list[Expression]:
    """Return every panel's queries, with these values of Grafana's variables."""
    return [
        Expression(panel["title"], _filled_in(target["expr"], values))
        for panel in _panels(dashboard["panels"])
        for target in panel.get("targets", ())
    ]


def _panels(panels: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for panel in panels:
        yield panel
        yield from _panels(panel.get("panels", ()))


def _filled_in(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


class Prometheus:
    """The HTTP API of a running Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url

    def values(self, expression: str) -> list[float]:
        """Return an instant query's values; raises `ValueError` with Prometheus' message for a wrong expression."""
        return [float(series["value"][1]) for series in self._get("query", query=expression)["result"]]

    def label_values(self, series: str, label: str) -> list[str]:
        """Return the label's values in all series that the selector finds."""
        return [*self._get(f"label/{label}/values", **{"match[]": series})]

    def rules(self) -> list[dict[str, Any]]:
        """Return all loaded rules, with their health."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _get(self, path: str, **parameters: str) -> Any:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=_SECONDS) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error)["error"]) from None


def everything(prometheus: Prometheus, dashboard: dict[str, Any]) -> dict[str, str]:
    """Return the values of Grafana's variables when "All" is chosen: all choices, or `allValue`."""
    values = dict(_RATE_INTERVAL)
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            listed = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert listed, variable["query"]["query"]
            found = prometheus.label_values(_filled_in(listed[1], values), listed[2])
            values[f"${variable['name']}"] = variable.get("allValue") or _any_of(found)
    return values


def _any_of(texts: Sequence[str]) -> str:
    """Return a regular expression as PromQL writes it in a string."""
    return f"({'|'.join(map(re.escape, texts))})".replace("\\", "\\\\")


def problems(prometheus: Prometheus, dashboards: Sequence[Path]) -> list[str]:
    """Return the problems of a server under load: wrong expressions, and panels and records without a number."""
    found = []
    rules = prometheus.rules()
    if not rules:
        found.append("no rules are loaded")
    for rule in rules:
        if rule["health"] != "ok":
            found.append(f"{rule['name']}: {rule['health']} {rule.get('lastError', '')}")
        elif rule["type"] == "recording":
            found += _unanswered(prometheus, rule["name"], rule["name"])
    for path in dashboards:
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        for panel, text in expressions(dashboard, everything(prometheus, dashboard)):
            found += _unanswered(prometheus, f"{path.name}: {panel}", text)
    return found


def _unanswered(prometheus: Prometheus, what: str, expression: str) -> list[str]:
    try:
        values = prometheus.values(expression)
    except ValueError as error:
        return [f"{what}: {error}"]
    return [] if any(not math.isnan(value) for value in values) else [f"{what}: no number for {expression}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the problems; return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="deploy.check_dashboards", description=__doc__)
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090", help="address of Prometheus")
    parser.add_argument(
        "dashboards", type=Path, nargs="*", help="dashboards as JSON files (default: all of deploy/grafana)"
    )
    options = parser.parse_args(arguments)
    dashboards = options.dashboards or sorted(DASHBOARDS.glob("*.json"))
    try:
        found = problems(Prometheus(options.prometheus), dashboards)
    except OSError as error:
        parser.error(f"{options.prometheus} or {', '.join(map(str, dashboards))}: {error}")
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
