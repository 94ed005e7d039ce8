"""The count of GPUs, on a machine without one."""

from pathlib import Path

import pytest

from service.hardware import usable_gpus, visible_gpus


@pytest.mark.parametrize(("answer", "count"), [("print(3)", 3), ("raise ImportError", 0)])
def test_pytorch_is_asked_for_gpus_where_there_is_a_driver(
    answer: str, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("service.hardware._COUNT_GPUS", answer)
    monkeypatch.setattr("service.hardware._GPU_DRIVERS", [tmp_path / "none"])
    monkeypatch.setattr("service.hardware.visible_gpus", visible_gpus.__wrapped__)
    assert usable_gpus() == 0
    monkeypatch.setattr("service.hardware._GPU_DRIVERS", [tmp_path / "none", tmp_path])
    assert usable_gpus() == count
