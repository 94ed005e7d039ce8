"""A comparison's description of the machine."""

import json

from loadtest.bench.machine import describe, load_average, warning
from service.hardware import usable_cores


def test_a_busy_machine_is_reported() -> None:
    assert warning([0.05, 3.0, 3.0]) is None
    assert "2.20" in (warning([2.2, 0.0, 0.0]) or "")


def test_description() -> None:
    description = json.loads(json.dumps(describe()))

    assert description["cores"] == usable_cores() >= 1
    assert description["cpu"]
    assert description["packages"].keys() == {"dragoman", "torch", "ctranslate2", "transformers"}
    assert description["packages"]["torch"].startswith("2.")
    assert len(load_average()) == 3
