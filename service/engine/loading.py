"""Loading of a checkpoint, and serving it in an engine process, which is a fork of the process that has loaded it."""

import logging
import socket
from pathlib import Path
from typing import NamedTuple

import torch

from model import kernels
from model.checkpoint import load_model, load_shortlist
from model.config import ModelConfig
from model.shortlist import Shortlist
from model.transformer import Transformer
from service.engine.loop import EngineLoop, SocketChannel
from service.engine.messages import EngineOptions, Failed, Ready
from service.engine.modes import Mode, device_of, mode_on
from service.engine.runner import CppRunner, DeviceLost, Runner
from service.engine.scheduler import Scheduler
from service.engine.thread_lending import Lenders, ThreadLending, lending_among

logger = logging.getLogger(__name__)


class LoadedModel(NamedTuple):
    """A loaded model: everything that is the same in every replica."""

    options: EngineOptions
    config: ModelConfig
    parameters: int
    mode: Mode
    shortlist: Shortlist | None
    content: Runner | Transformer
    """The runner on the CPU, whose packed weights the forks share; a GPU's memory does not survive a fork."""
    lending: ThreadLending | None

    def on_device(self, replica: int) -> tuple[Runner, torch.device]:
        """Move the model to its device, in the engine process. Raises RuntimeError for a GPU that is not there."""
        device = device_of(self.options.device, replica)
        torch.set_num_threads(self.options.threads)
        if isinstance(self.content, Transformer):
            model = self.content.to(device)
            return self.mode.build_runner(model, self.options.slots, self.options.max_length, self.shortlist), device
        return self.content, device


def prepare(*, shared: bool) -> Lenders | None:
    """Load the operators, and return the memory of the engines that lend threads if forks are to share it.

    In one thread: others would not survive a fork. Raises RuntimeError.
    """
    torch.set_num_threads(1)
    kernels.load()  # may compile: once for all engine processes, and not while one is expected to be ready
    return Lenders() if shared else None


def load(options: EngineOptions, lenders: Lenders | None) -> LoadedModel:
    """Load the model in one thread. Raises `CheckpointError` and RuntimeError."""
    device = torch.device(options.device)
    mode = mode_on(options.mode, device)
    if options.cpu_variant != "auto":
        kernels.choose(options.cpu_variant)
    checkpoint = Path(options.checkpoint)
    model = load_model(checkpoint, mode.dtype)
    shortlist = load_shortlist(checkpoint) if options.uses_shortlist else None
    config = model.config
    parameters = sum(p.numel() for p in model.parameters())
    content: Runner | Transformer = model
    if device.type == "cpu":
        content = mode.build_runner(model, options.slots, options.max_length, shortlist)
    lending = lending_among(options, lenders) if isinstance(content, CppRunner) else None
    return LoadedModel(options, config, parameters, mode, shortlist, content, lending)


def serve(model: LoadedModel, replica: int, end: socket.socket) -> int:
    """Report readiness and run until the HTTP process closes the socket; return the process's exit status."""
    options, channel = model.options, SocketChannel(end)
    try:
        runner, device = model.on_device(replica)
    except RuntimeError as error:
        channel.send(Failed(str(error)))
        return 1
    scheduler = Scheduler(
        slots=options.slots,
        max_prefill=options.max_prefill,
        bos_id=model.config.bos_id,
        eos_id=model.config.eos_id,
        is_recurrent=model.config.decoder_memory == "ssru",
    )
    try:
        channel.send(Ready(parameters=model.parameters, device=str(device)))
        EngineLoop(scheduler, runner, model.lending.join(replica, channel) if model.lending else channel).run()
    except ConnectionError:
        # The HTTP process died between two reads: no process is left to report to.
        logger.warning("the HTTP process is gone")
    except DeviceLost:
        # Every request is given to the next engine, with the tokens reported so far.
        logger.exception("the device is lost")
        return 1
    return 0
