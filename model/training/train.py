"""A run from its config to its checkpoint: resumable, stopped by SIGTERM or Ctrl-C without losing a step."""

import ctypes
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from model.checkpoint import save_checkpoint
from model.checkpoint_config import CheckpointConfig
from model.tokenizer import Tokenizer
from model.training.config import TrainConfig
from model.training.data import PackedPairs, prepare
from model.training.parallel import Group
from model.training.report import MissingExtraError, RunLog, plot
from model.training.trainer import Batch, Trainer, TrainingError, check_start, learning_rate

logger = logging.getLogger(__name__)

# From glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_MAX: Final = -4


def train(config: TrainConfig, data: Path, output: Path, device: str = "cpu", tensorboard: bool = False) -> Path:
    """Run an experiment to its end, resuming if `output` holds a run; returns the checkpoint directory.

    `output` gets `checkpoint/`, `state.pt` (for a resume), `log.csv` and `curve.png`. Under torchrun every process
    calls this, and the first one writes.
    """
    check_start(config)
    reuse_large_blocks()
    with Group(device) as group:
        if not group.is_first:
            logging.getLogger("model.training").setLevel(logging.WARNING)
        run = _Run(config, data, output, group)
        try:
            run.go(tensorboard)
        except TrainingError:
            if run.state.exists():
                logger.error("the last good state is %s; the same command goes on from it", run.state)
            raise
        if group.is_first:
            _draw(output)
    return run.checkpoint


class _Run:
    """A trainer, and the files of its run."""

    def __init__(self, config: TrainConfig, data: Path, output: Path, group: Group) -> None:
        output.mkdir(parents=True, exist_ok=True)
        self.config = config
        self.group = group
        self.output = output
        self.state = output / "state.pt"
        self.checkpoint = output / "checkpoint"
        self.tokenizer, pairs, validation = self._prepare(data)
        self.trainer = Trainer(config, pairs, validation, group)
        if self.state.exists():
            self.trainer.resume(self.state)
            logger.info("resumed at step %d", self.trainer.step)
        parameters = sum(p.numel() for p in self.trainer.model.parameters())
        logger.info("%d pairs, %.1fM parameters, %d steps", len(pairs), parameters / 1e6, config.optimiser.max_steps)

    def _prepare(self, data: Path) -> tuple[Tokenizer, PackedPairs, PackedPairs]:
        cache = self.output / "data"
        problem: Exception | None = None
        if self.group.is_first:
            try:
                prepare(self.config, data, cache)
            except (ValueError, OSError) as error:
                problem = error
        # The others wait here until the first process has written the arrays, or failed: one message is enough then.
        if any(self.group.sum(problem is not None)):
            raise problem or TrainingError("the first process failed")
        return prepare(self.config, data, cache)

    def go(self, tensorboard: bool) -> None:
        """Step until the end, a stop signal, or `patience`."""
        trainer, options = self.trainer, self.config.optimiser
        directory = self.output if self.group.is_first else None
        with (
            RunLog(directory, options.max_steps, trainer.step, tensorboard) as log,
            _stop_signals() as stop_requested,
        ):
            batches = trainer.batches()
            # Asked before a batch is taken, so that none is lost to a resume; and of all, so that all stop together.
            while self._goes_on() and not any(self.group.sum(stop_requested())):
                batch = next(batches)
                loss = trainer.train_step(batch)
                [tokens] = self.group.sum(self._real_tokens(batch))
                log.step(trainer.step, loss, learning_rate(options, trainer.step - 1), int(tokens))
                if trainer.step % options.validate_every == 0 or trainer.step == options.max_steps:
                    self._validate(log)
            # With patience the best stays; but a run that was stopped before its first validation leaves what it has.
            if options.patience is None or not self.checkpoint.exists():
                self._export()
            trainer.save(self.state)
            if stop_requested():
                logger.info("stopped at step %d of %d; the same command goes on", trainer.step, options.max_steps)

    def _goes_on(self) -> bool:
        options = self.config.optimiser
        if options.patience is not None and self.trainer.best.since >= options.patience:
            best = self.trainer.best
            logger.info("stopped: %d validations without improvement; the best, %.4f, is kept", best.since, best.loss)
            return False
        return self.trainer.step < options.max_steps

    def _validate(self, log: RunLog) -> None:
        loss = self.trainer.validation_loss()
        is_best = self.trainer.best.update(loss)
        if is_best or self.config.optimiser.patience is None:
            self._export()
        # After the export: whoever is killed in between validates this step again, and finds the same.
        self.trainer.save(self.state)
        log.validation(self.trainer.step, loss)

    def _export(self) -> None:
        if self.group.is_first:
            described = CheckpointConfig(directions=self.config.directions(), model=self.config.model)
            save_checkpoint(self.checkpoint, described, self.trainer.averaged_model().state_dict(), self.tokenizer)

    def _real_tokens(self, batches: list[Batch]) -> int:
        pad = self.config.model.pad_id
        return sum(int((ids != pad).sum()) for batch in batches for ids in batch)


def _draw(output: Path) -> None:
    try:
        plot(output / "log.csv", output / "curve.png")
    except MissingExtraError as error:
        logger.warning("%s", error)


def reuse_large_blocks() -> None:
    """Tell glibc to keep large freed blocks instead of giving each back to the kernel.

    A step's logits take hundreds of megabytes; mapping and clearing fresh pages for them every time
    costs a third of a step on a CPU. Other C libraries are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether SIGTERM or Ctrl-C has come; they do nothing else meanwhile."""
    requested = False

    def request(signum: int, frame: FrameType | None) -> None:
        nonlocal requested
        requested = True

    before = {number: signal.signal(number, request) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
