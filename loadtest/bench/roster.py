"""The engines that can be measured. A new peer is one more line in `ENTRIES` and one more file.

Every peer has a process of its own (loadtest/bench/process.py), which imports this module and then only what its
own entry opens: so one peer's libraries are not in another's memory.
"""

import shutil
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from loadtest.bench.peers import Comparison, Peer
from model.checkpoint_config import load_config
from model.config import ModelConfig
from service.settings import EMBEDDED_MODEL

OURS: Final = "dragoman"


Open = Callable[[Comparison, Path], AbstractContextManager[Peer]]
"""Opens a peer for a comparison, with what `prepare` has written into the directory."""


def _dragoman(comparison: Comparison, models: Path) -> AbstractContextManager[Peer]:
    from loadtest.bench.dragoman import open_dragoman

    return open_dragoman(comparison, models)


def _ctranslate2(compute_type: str) -> Open:
    def open_it(comparison: Comparison, models: Path) -> AbstractContextManager[Peer]:
        from loadtest.bench.ctranslate2_peer import hold_to, open_ctranslate2

        hold_to(comparison.cpu_variant)
        return open_ctranslate2(models / f"ctranslate2-{compute_type}", compute_type, comparison.cores)

    return open_it


def _transformers(comparison: Comparison, models: Path) -> AbstractContextManager[Peer]:
    from loadtest.bench.marian import open_marian

    dtype: Literal["float32", "bfloat16"] = "bfloat16" if comparison.mode == "bf16" else "float32"
    return open_marian(load_config(models / "checkpoint").model, comparison.cores, comparison.device, dtype)


@dataclass(frozen=True, slots=True)
class Entry:
    """A peer: how its process opens it, and what it needs before."""

    open: Open
    package: str | None = None
    """Package that must be installed."""
    conversion: Literal["int8", "float32"] | None = None
    """The CTranslate2 model that it loads."""
    without_torch: bool = False
    """True if the peer would import torch without need."""


ENTRIES: Final[dict[str, Entry]] = {
    OURS: Entry(_dragoman),
    "ctranslate2": Entry(_ctranslate2("int8"), "ctranslate2", "int8", without_torch=True),
    "ctranslate2-fp32": Entry(_ctranslate2("float32"), "ctranslate2", "float32", without_torch=True),
    "transformers": Entry(_transformers, "transformers"),
}


def prepare(names: Iterable[str], config: ModelConfig | None, models: Path) -> None:
    """Write what these peers load into the directory `models`: the same weights, in each one's format.

    They are random weights of a shape, or without one the embedded model's.
    """
    if config is None:
        shutil.copytree(EMBEDDED_MODEL, models / "checkpoint")
    else:
        # Here, since peers' processes import this module and torch is not theirs to load.
        from loadtest.bench.weights import save_random_checkpoint

        save_random_checkpoint(models / "checkpoint", config)
    for name in names:
        if (conversion := ENTRIES[name].conversion) is not None:
            from loadtest.bench.ctranslate2_model import convert

            convert(models / "checkpoint", models / f"ctranslate2-{conversion}", conversion)
