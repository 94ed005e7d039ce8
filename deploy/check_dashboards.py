"""Whether a Prometheus can answer all that dashboards and rules ask: `python -m deploy.check_dashboards --help`.

Standard library only, so that it runs where nothing is installed. Knows the Prometheus API and Grafana's files, and
nothing of Dragoman's metrics.
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
    """What a dashboard asks, and for which panel."""

    panel: str
    text: str


def expressions(dashboard: dict[str, Any], values: Mapping[str, str] = _RATE_INTERVAL) -> list[Expression]:
    """Every panel's queries, with these values of Grafana's variables."""
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
        """An instant query's values; raises `ValueError` with what Prometheus says of a wrong expression."""
        return [float(series["value"][1]) for series in self._get("query", query=expression)["result"]]

    def label_values(self, series: str, label: str) -> list[str]:
        """Of all series that the selector finds."""
        return [*self._get(f"label/{label}/values", **{"match[]": series})]

    def rules(self) -> list[dict[str, Any]]:
        """All loaded rules, with their health."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _get(self, path: str, **parameters: str) -> Any:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=_SECONDS) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error)["error"]) from None


def everything(prometheus: Prometheus, dashboard: dict[str, Any]) -> dict[str, str]:
    """What Grafana fills in for its variables where "All" is chosen: what there is to choose, or `allValue`."""
    values = dict(_RATE_INTERVAL)
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            listed = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert listed, variable["query"]["query"]
            found = prometheus.label_values(_filled_in(listed[1], values), listed[2])
            values[f"${variable['name']}"] = variable.get("allValue") or _any_of(found)
    return values


def _any_of(texts: Sequence[str]) -> str:
    """A regular expression, as it is written in a string of PromQL."""
    return f"({'|'.join(map(re.escape, texts))})".replace("\\", "\\\\")


def problems(prometheus: Prometheus, dashboards: Sequence[Path]) -> list[str]:
    """What a server under load does not answer: wrong expressions, and panels and records without a number."""
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
    """1 and a list where something is not answered."""
    parser = argparse.ArgumentParser(prog="deploy.check_dashboards", description=__doc__)
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090", help="its address")
    parser.add_argument("dashboards", type=Path, nargs="*", help="JSON files of Grafana; else all of deploy/grafana")
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
