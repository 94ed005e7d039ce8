"""A run from its config to its checkpoint: resumable, stopped by SIGTERM or Ctrl-C without losing a step."""

import ctypes
import logging
import math
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

import torch
from safetensors import SafetensorError

from model.checkpoint import save_checkpoint
from model.checkpoint_config import CheckpointConfig
from model.training.config import TrainConfig
from model.training.device import find_device
from model.training.pack import PACK_FILE, Pack, check_pack, load_pack
from model.training.packing import check_rows
from model.training.prepare import prepare
from model.training.report import MissingExtraError, RunLog, plot
from model.training.schedule import is_over
from model.training.state import TrainingError, check_start
from model.training.trainer import Trainer

logger = logging.getLogger(__name__)

_REPORT_EVERY: Final = 100  # steps

# From glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_MAX: Final = -4


class RunOptions(NamedTuple):
    """Options of a call: everything that is not the experiment."""

    device: str = "cpu"
    minutes: float | None = None
    """Overrides `optimiser.minutes`; with `decay_now`, the time that the decay takes."""
    decay_now: bool = False
    """Let the learning rate fall to 0 from where the run stands, and end."""
    workers: int = 1
    """Processes that read and pack pairs while the model computes."""


_DEFAULTS: Final = RunOptions()


def train(config: TrainConfig, data: Path, output: Path, options: RunOptions = _DEFAULTS) -> Path:
    """Run an experiment to its end, resuming if `output` holds a run; returns the checkpoint directory.

    `data` is a pack (`dragoman prepare`), or a directory of corpora, of which a pack is made in `output`. `output` gets
    `checkpoint/`, `state.pt` (for a resume), `log.csv` and `curve.png`.
    """
    check_start(config)
    reuse_large_blocks()
    # cuDNN's attention keeps a plan for every new shape; the other kernels need none.
    torch.backends.cuda.enable_cudnn_sdp(False)
    if options.minutes is not None and not options.decay_now:
        optimiser = config.optimiser.model_copy(update={"minutes": options.minutes})
        config = config.model_copy(update={"optimiser": optimiser})
    if options.decay_now and not (output / "state.pt").exists():
        raise TrainingError(f"{output / 'state.pt'} is not there: only a run that has begun can decay")
    run = _Run(config, data, output, options)
    try:
        run.go()
    except (TrainingError, OSError):
        if run.state.exists():
            logger.error("the last good state is %s; the same command goes on from it", run.state)
        raise
    _draw(output)
    return run.checkpoint


def is_finished(config: TrainConfig, output: Path) -> bool:
    """Return True if the run in `output` has come to its end, by its schedule or `patience`."""
    state = torch.load(output / "state.pt", weights_only=True, mmap=True)
    progress, options = state["progress"], config.optimiser
    is_patient = options.patience is None or state["best"]["since"] < options.patience
    return not is_patient or is_over(options, progress["step"], progress["seconds"], None)


class _Run:
    """A trainer, and the files of its run."""

    def __init__(self, config: TrainConfig, data: Path, output: Path, options: RunOptions) -> None:
        device = find_device(options.device)
        output.mkdir(parents=True, exist_ok=True)
        self.config = config
        self.output = output
        self.state = output / "state.pt"
        self.checkpoint = output / "checkpoint"
        self.pack = self._open_pack(data)
        self.trainer = Trainer(config, self.pack, device, options.workers)
        if self.state.exists():
            self.trainer.resume(self.state)
            logger.info("resumed at step %d", self.trainer.step)
        if options.decay_now:
            self.trainer.decay_now(options.minutes)
        parameters = sum(p.numel() for p in self.trainer.model.parameters())
        logger.info("%d pairs, %.1fM parameters", len(self.pack.train), parameters / 1e6)

    def _open_pack(self, data: Path) -> Pack:
        """Open the pack that `data` is, or make one of the corpora in it."""
        pack = load_pack(data) if (data / PACK_FILE).exists() else prepare(self.config, data, self.output / "pack")
        check_pack(pack, self.config)
        check_rows(pack, self.config.optimiser.row_tokens)
        return pack

    def go(self) -> None:
        """Step until the end, a stop signal, or `patience`."""
        trainer, options = self.trainer, self.config.optimiser
        with RunLog(self.output, options.max_steps, trainer.step) as log, _stop_signals() as stop_requested:
            if math.isinf(trainer.best.loss) and self.config.start_from is not None and options.patience is not None:
                self._validate(log)  # nothing worse than the weights that it starts from is kept
            batches = trainer.batches()
            # Asked before a batch is taken, so that none is lost to a resume.
            while self._goes_on() and not stop_requested():
                trainer.train_step(next(batches))
                log.advance(trainer.step)
                validates = trainer.step % options.validate_every == 0 or trainer.is_over()
                if validates or trainer.step % _REPORT_EVERY == 0:
                    log.steps(trainer.report())
                if validates:
                    self._validate(log)
            last = trainer.report()
            if last.tokens:
                log.steps(last)
            # With `patience`, keep the best checkpoint; export only if there is none yet.
            if options.patience is None or not self.checkpoint.exists():
                self._export()
            trainer.save(self.state)
            if stop_requested():
                logger.info("stopped at step %d; the same command goes on", trainer.step)

    def _goes_on(self) -> bool:
        options = self.config.optimiser
        if options.patience is not None and self.trainer.best.since >= options.patience:
            best = self.trainer.best
            logger.info("stopped: %d validations without improvement; the best, %.4f, is kept", best.since, best.loss)
            return False
        return not self.trainer.is_over()

    def _validate(self, log: RunLog) -> None:
        loss = self.trainer.validation_loss()
        is_best = self.trainer.best.update(loss)
        if is_best or self.config.optimiser.patience is None:
            self._export()
        # After the export: whoever is killed in between validates this step again, and finds the same.
        self.trainer.save(self.state)
        log.validation(self.trainer.step, loss)

    def _export(self) -> None:
        """Replace the checkpoint, or leave it as it is."""
        tokenizer = self.pack.tokenizer
        described = CheckpointConfig(
            directions=self.config.directions(),
            prompt=tokenizer.prompt,
            max_sentence_tokens=self.config.max_sentence_tokens,
            model=self.config.model,
        )
        partial, old = (self.output / f"checkpoint.{state}" for state in ("partial", "old"))
        weights = self.trainer.averaged_model().state_dict()
        try:
            save_checkpoint(partial, described, weights, tokenizer, getattr(torch, self.config.stored_as))
        except (OSError, SafetensorError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise TrainingError(f"{partial} cannot be written: {error}; free some space, and run it again") from None
        shutil.rmtree(old, ignore_errors=True)
        if self.checkpoint.exists():
            self.checkpoint.rename(old)
        partial.rename(self.checkpoint)
        shutil.rmtree(old, ignore_errors=True)


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
    """Yield a function that is true once SIGTERM or Ctrl-C has come; the signals do nothing else meanwhile."""
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
