"""The training loop: one process, resumable, stopped by SIGTERM without losing a step."""

import csv
import ctypes
import logging
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from model.checkpoint import load_model, save_checkpoint
from model.manifest import CheckpointConfig, load_config
from model.tokenizer import Tokenizer
from model.training.config import OptimiserConfig, TrainConfig
from model.training.data import PackedPairs, epoch_batches, prepare
from model.transformer import Transformer

logger = logging.getLogger(__name__)

# From glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_MAX: Final = -4

Batch = tuple[Tensor, Tensor]


class TrainingError(RuntimeError):
    """Training cannot go on; the last good checkpoint is kept."""


def learning_rate(config: OptimiserConfig, step: int) -> float:
    """Linear warm-up to `learning_rate`, then inverse square root of the step, or half a cosine to 0."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    if config.schedule == "inverse_sqrt":
        return config.learning_rate * math.sqrt(config.warmup_steps / (step + 1))
    done = (step - config.warmup_steps) / max(1, config.max_steps - config.warmup_steps)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def token_loss(logits: Tensor, target_ids: Tensor, pad_id: int, label_smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy in nats over the real tokens of `target_ids [batch, target]`."""
    return F.cross_entropy(
        logits.float().flatten(0, 1), target_ids.flatten(), ignore_index=pad_id, label_smoothing=label_smoothing
    )


class Trainer:
    """The state of a run (weights, optimiser, average, place in the data) and the step that advances it."""

    def __init__(self, config: TrainConfig, pairs: PackedPairs, device: torch.device) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.device = device
        self.pairs = pairs
        self.model = _first_model(config).to(device)
        # What is validated and shipped: an average forgets the noise of the last steps.
        averaging = get_ema_multi_avg_fn(config.optimiser.average_decay)  # type: ignore[no-untyped-call]
        self.average = AveragedModel(self.model, multi_avg_fn=averaging)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(),
            lr=0.0,
            betas=(0.9, 0.98),
            eps=1e-9,
            weight_decay=config.optimiser.weight_decay,
            fused=True,
        )
        self.step = 0
        self.epoch = 0
        self.batches_done = 0

    def batches(self) -> Iterator[Batch]:
        """Endless batches from where the run stands; exact after a resume."""
        while True:
            order = epoch_batches(self.pairs, self.config.optimiser.batch_tokens, self.config.seed, self.epoch)
            while self.batches_done < len(order):
                indices = order[self.batches_done]
                self.batches_done += 1
                yield self._to_device(indices)
            self.epoch, self.batches_done = self.epoch + 1, 0

    def _to_device(self, indices: NDArray[np.int64]) -> Batch:
        source, target = self.pairs.batch(indices, self.config.model.pad_id)
        return source.to(self.device), target.to(self.device)

    def train_step(self, batch: Batch) -> float:
        """One update; returns the loss. Raises `TrainingError` when it is not a number."""
        options = self.config.optimiser
        self.model.train()
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(options, self.step)
        source, target = batch
        with self._autocast():
            logits = self.model(source, target)
        loss = token_loss(logits, target, self.config.model.pad_id, options.label_smoothing)
        value = loss.item()
        if not math.isfinite(value):
            raise TrainingError(
                f"loss is {value} at step {self.step}; resume from the last checkpoint with a lower learning_rate"
            )
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), options.clip_norm)
        self.optimiser.step()
        self.average.update_parameters(self.model)
        self.step += 1
        return value

    def _autocast(self) -> torch.autocast:
        enabled = self.config.optimiser.precision == "bfloat16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=enabled)

    @torch.inference_mode()
    def validation_loss(self, pairs: PackedPairs) -> float:
        """Nats per target token of the averaged weights, without label smoothing."""
        model = self.averaged_model().eval()
        pad = self.config.model.pad_id
        total, tokens = 0.0, 0
        for indices in epoch_batches(pairs, self.config.optimiser.batch_tokens, 0, 0):
            source, target = (ids.to(self.device) for ids in pairs.batch(indices, pad))
            with self._autocast():
                logits = model(source, target)
            real = int((target != pad).sum())
            total += token_loss(logits, target, pad).item() * real
            tokens += real
        return total / tokens

    def averaged_model(self) -> Transformer:
        model = self.average.module
        assert isinstance(model, Transformer)
        return model

    def save(self, path: Path) -> None:
        """Write everything a resume needs, or nothing: the file appears whole."""
        state = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "place": {"step": self.step, "epoch": self.epoch, "batches_done": self.batches_done},
            "random": torch.get_rng_state(),
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(path)

    def resume(self, path: Path) -> None:
        """Continue exactly where `save` left off."""
        state = torch.load(path, weights_only=True, map_location=self.device)
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step = state["place"]["step"]
        self.epoch = state["place"]["epoch"]
        self.batches_done = state["place"]["batches_done"]
        torch.set_rng_state(state["random"].cpu())


def train(config: TrainConfig, data: Path, output: Path, device: str = "cpu") -> Path:
    """Run an experiment to its end, resuming if `output` holds a run; returns the checkpoint directory."""
    _reuse_large_blocks()
    output.mkdir(parents=True, exist_ok=True)
    tokenizer, pairs, validation = prepare(config, data, output / "data")
    trainer = Trainer(config, pairs, torch.device(device))
    state = output / "state.pt"
    if state.exists():
        trainer.resume(state)
        logger.info("resumed at step %d", trainer.step)
    parameters = sum(p.numel() for p in trainer.model.parameters())
    logger.info("%d pairs, %.1fM parameters, %d steps", len(pairs), parameters / 1e6, config.optimiser.max_steps)
    stop_requested = _stop_on_sigterm()
    options = config.optimiser

    def checkpoint() -> None:
        trainer.save(state)
        _export(config, trainer.averaged_model(), tokenizer, output / "checkpoint")

    with _RunLog(output / "log.csv", options.max_steps, trainer.step) as log:
        batches = trainer.batches()
        # Asked before a batch is taken, so that none is lost to a resume.
        while trainer.step < options.max_steps and not stop_requested():
            batch = next(batches)
            loss = trainer.train_step(batch)
            log.step(trainer.step, loss, learning_rate(options, trainer.step - 1), batch)
            if trainer.step % options.validate_every == 0:
                log.validation(trainer.step, trainer.validation_loss(validation))
                checkpoint()
    checkpoint()
    return output / "checkpoint"


def _first_model(config: TrainConfig) -> Transformer:
    if config.start_from is None:
        return Transformer(config.model)
    if load_config(config.start_from).model != config.model:
        raise TrainingError(f"start_from: {config.start_from} has another [model] than this config")
    return load_model(config.start_from)


def _export(config: TrainConfig, model: Transformer, tokenizer: Tokenizer, directory: Path) -> None:
    described = CheckpointConfig(
        source_language=config.source_language, target_language=config.target_language, model=config.model
    )
    save_checkpoint(directory, described, model.state_dict(), tokenizer)


def _reuse_large_blocks() -> None:
    """Tell glibc to keep large freed blocks instead of giving each back to the kernel.

    A step's logits take hundreds of megabytes; mapping and clearing fresh pages for them every time
    costs a third of a step on a CPU. Other C libraries are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def _stop_on_sigterm() -> Callable[[], bool]:
    requested = False

    def request(signum: int, frame: FrameType | None) -> None:
        nonlocal requested
        requested = True

    signal.signal(signal.SIGTERM, request)
    return lambda: requested


class _RunLog:
    """A progress bar for people and `log.csv` for plots: step, loss, learning rate, tokens/s, validation loss."""

    _WINDOW = 100  # steps a row

    def __init__(self, path: Path, max_steps: int, first_step: int) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        self._progress = Progress(TextColumn("step"), *columns, disable=not os.isatty(2))
        self._task = self._progress.add_task("", total=max_steps, completed=first_step)
        self._file = path.open("a", newline="", encoding="utf-8")
        self._writer = csv.writer(self._file)
        if path.stat().st_size == 0:
            self._writer.writerow(["step", "loss", "learning_rate", "tokens_per_second", "validation_loss"])
        self._losses: list[float] = []
        self._tokens = 0
        self._since = time.perf_counter()

    def __enter__(self) -> "_RunLog":
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()
        self._file.close()

    def step(self, step: int, loss: float, rate: float, batch: Batch) -> None:
        self._losses.append(loss)
        self._tokens += sum(int((ids != 0).sum()) for ids in batch)
        if step % self._WINDOW:
            self._progress.advance(self._task)
            return
        speed = self._tokens / (time.perf_counter() - self._since)
        mean = sum(self._losses) / len(self._losses)
        description = f"loss {mean:.3f}  lr {rate:.2e}  {speed:,.0f} tokens/s"
        self._progress.update(self._task, advance=1, description=description)
        logger.info("step %d  %s", step, description)
        self._row(step, f"{mean:.4f}", f"{rate:.3e}", f"{speed:.0f}", "")
        self._losses, self._tokens, self._since = [], 0, time.perf_counter()

    def validation(self, step: int, loss: float) -> None:
        logger.info("step %d  validation loss %.4f", step, loss)
        self._row(step, "", "", "", f"{loss:.4f}")
        self._since = time.perf_counter()

    def _row(self, *columns: object) -> None:
        self._writer.writerow(columns)
        self._file.flush()
