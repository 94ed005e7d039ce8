"""Rules, dashboard and runbook: of one piece with each other, with our metrics, and with a real Prometheus."""

import asyncio
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from deploy.check_dashboards import DASHBOARDS, Prometheus, everything, expressions, main, problems
from service.errors import DeadlineExceeded, InsufficientStorage, ServiceError
from service.observability.metrics import Metrics
from tests.deploy.conftest import ROOT, find_prometheus
from tests.system.conftest import free_port, run_server
from tests.system.sentences import SENTENCES
from tests.system.sse import stream
from tests.waiting import wait_for

RULES = ROOT / "deploy/prometheus/rules.yml"
DASHBOARD = DASHBOARDS / "dragoman.json"
PATIENCE_SECONDS = 60.0


def _rules(kind: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


def _alerts() -> list[str]:
    return [rule["alert"] for rule in _rules("alert")]


def _asked() -> list[str]:
    """Every expression of the rules and the dashboard."""
    dashboard = json.loads(DASHBOARD.read_text())
    return [rule["expr"] for kind in ("alert", "record") for rule in _rules(kind)] + [
        each.text for each in expressions(dashboard)
    ]


def test_rules_fire_and_are_silent_as_they_should() -> None:
    promtool = find_prometheus("promtool")
    for what, file in (("check config", "prometheus.yml"), ("test rules", "rules_test.yml")):
        command = [promtool, *what.split(), str(RULES.with_name(file))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_test_that_makes_it_fire() -> None:
    tests = yaml.safe_load(RULES.with_name("rules_test.yml").read_text())["tests"]
    checks = [check for test in tests for check in test.get("alert_rule_test", ())]
    assert {check["alertname"] for check in checks if check["exp_alerts"]} == set(_alerts())


def test_every_alert_has_its_section_in_the_runbook_and_names_it() -> None:
    runbook = (ROOT / "deploy/RUNBOOK.md").read_text()
    assert re.findall(r"^## (Dragoman\w+)$", runbook, re.MULTILINE) == _alerts()
    for section in re.split(r"^## ", runbook, flags=re.MULTILINE)[1:]:
        if section.startswith("Dragoman"):
            assert "**Means.**" in section
            assert "**Do.**" in section
    for rule in _rules("alert"):
        assert rule["annotations"]["runbook"] == f"deploy/RUNBOOK.md#{rule['alert'].lower()}"


def test_only_metrics_that_exist_are_asked_for() -> None:
    metrics = Metrics("1", "int8")
    metrics.observer("en-fr", 0)
    exposed = {line.split()[2] for line in metrics.exposition().decode().splitlines() if line.startswith("# TYPE")}
    exposed |= {f"{name}_{part}" for name in exposed for part in ("bucket", "sum", "count")}
    recorded = {rule["record"] for rule in _rules("record")}
    for text in _asked():
        bare = re.sub(r'"[^"]*"', "", text)
        assert set(re.findall(r"\bnamespace_job\w*:[\w:]+", bare)) <= recorded
        # Not what is behind a colon: that is a part of a recorded name.
        assert set(re.findall(r"(?<![:\w])(?:dragoman|process)_\w+", bare)) <= exposed, text


def test_every_metric_of_ours_is_on_the_dashboard() -> None:
    asked = " ".join(_asked())
    metrics = Metrics("1", "int8")
    names = [
        line.split()[2] for line in metrics.exposition().decode().splitlines() if line.startswith("# TYPE dragoman")
    ]
    assert [name for name in names if name not in asked and not name.endswith("_created")] == []


def test_every_fault_of_the_server_counts_as_a_failure() -> None:
    """The dashboard and the rules agree on what was admitted: successes, cancellations, timeouts and failures."""

    def errors_of(kind: type[ServiceError]) -> set[type[ServiceError]]:
        return {kind}.union(*map(errors_of, kind.__subclasses__()))

    errors = errors_of(ServiceError)
    own = {DeadlineExceeded, InsufficientStorage}  # have an alert of their own, or are none of a translation's
    faults = {each.code for each in errors if each.status >= 500 and each not in own}
    admitted = faults | {"ok", "cancelled", DeadlineExceeded.code}
    [failing] = [rule["expr"] for rule in _rules("alert") if rule["alert"] == "DragomanFailing"]
    [record] = [rule["expr"] for rule in _rules("record") if "admitted" in rule["record"]]
    [panel] = [each.text for each in expressions(json.loads(DASHBOARD.read_text())) if each.panel == "Failed"]
    listed = [
        set(each.split("|")) for text in (failing, record, panel) for each in re.findall(r'outcome=~"(.+?)"', text)
    ]
    assert listed == [faults, admitted, faults, admitted]


def test_the_dashboard_s_panels_lie_side_by_side() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        places = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert max(x for x, _ in places) < 24
        assert not places & taken, panel["title"]
        taken |= places


def _wait_for(prometheus: Prometheus, expression: str, value: float) -> None:
    wait_for(lambda: prometheus.values(expression) == [value], PATIENCE_SECONDS)


@contextmanager
def _prometheus(target: str, directory: Path) -> Iterator[str]:
    """A real one with our rules, often enough for a short test, that also watches itself; its address."""
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES.with_name(name)) for name in config["rule_files"]]
    [job] = config["scrape_configs"]
    job["static_configs"] = [{"targets": [target]}]
    address = f"127.0.0.1:{free_port()}"
    config["scrape_configs"].append({"job_name": "prometheus", "static_configs": [{"targets": [address]}]})
    file = directory / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    command = [find_prometheus("prometheus"), f"--config.file={file}", f"--storage.tsdb.path={directory / 'tsdb'}"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stderr=log)
    try:
        yield f"http://{address}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


async def test_a_real_prometheus_answers_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    find_prometheus("prometheus")
    with run_server(tmp_path / "server") as server, _prometheus(server.url.removeprefix("http://"), tmp_path) as url:
        live = {"source": "en", "target": "fr", "append": SENTENCES[0], "end": True}
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            deadline = time.monotonic() + PATIENCE_SECONDS
            found = ["Prometheus does not answer"]
            while found and time.monotonic() < deadline:
                await stream(client, " ".join(SENTENCES[:10]))
                await client.post("/translate/live", json=live)
                try:
                    found = await asyncio.to_thread(problems, Prometheus(url), [DASHBOARD])
                except (OSError, json.JSONDecodeError):  # it does not listen yet, or answers 503 in words
                    await asyncio.sleep(0.1)
            assert found == []
        assert Prometheus(url).values('count(ALERTS{alertname=~"Dragoman.*", alertstate="firing"}) or vector(0)') == [0]
        dashboard = DASHBOARD.read_text()
        chosen = everything(Prometheus(url), json.loads(dashboard))
        assert chosen["$job"] == "(dragoman)"
        [up] = [text for panel, text in expressions(json.loads(dashboard), chosen) if panel == "Servers up"]
        await asyncio.to_thread(_wait_for, Prometheus(url), "sum(up)", 2.0)
        assert Prometheus(url).values(up) == [1]
        broken = tmp_path / "broken.json"
        broken.write_text(
            dashboard.replace("dragoman_batch_rows_sum", "nobody_has_this").replace("time() -", "time( -")
        )
        assert main(["--prometheus", url, str(broken)]) == 1
        reported = capsys.readouterr().out.splitlines()
        assert [line.split(": ")[1] for line in reported] == ["Rows of a decode step", "Uptime"]
