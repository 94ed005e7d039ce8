"""The program of an engine process: `python -m service.engine.worker OPTIONS`, commands on stdin, reports on stdout."""

import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys
from pathlib import Path

import msgspec

from service import logs
from service.engine.channel import PipeChannel
from service.engine.request import EngineOptions, Failed, Ready
from service.engine.scheduler import Scheduler
from service.importing import fingerprint

logger = logging.getLogger(__name__)


def main() -> None:
    """Load the model, say so, and step until the HTTP process closes the pipe."""
    # Signals can reach the whole process group; when to stop is the HTTP process's decision. Before
    # anything slow is imported, so that Ctrl-C at the start is not answered with a traceback.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    import torch

    from model.checkpoint import load_model
    from model.manifest import CheckpointError
    from service.engine.loop import EngineLoop
    from service.engine.modes import device_of, mode_on
    from service.engine.runner import DeviceLost

    options = msgspec.json.decode(sys.argv[1], type=EngineOptions)
    logs.configure(options.log_level)
    # Reports own the real stdout; a library that prints must not break their framing.
    reports = os.dup(1)
    os.dup2(2, 1)
    channel = PipeChannel(0, reports)
    torch.set_num_threads(options.threads)
    try:
        mode = mode_on(options.mode, torch.device(options.device))
        device = device_of(options.device, options.replica)
        checkpoint = Path(options.checkpoint)
        model = load_model(checkpoint, mode.dtype).to(device)
        # The HTTP process has the tokenizer of those that it has read.
        if options.fingerprint and fingerprint(checkpoint) != options.fingerprint:
            raise CheckpointError(f"{checkpoint}: its files have changed")
        parameters = sum(p.numel() for p in model.parameters())
        config = model.config
        runner = mode.build_runner(model, options.slots, options.max_length)
        del model  # a runner may have copied its weights
        _give_memory_back()
        gc.freeze()  # what is there now stays: looking through it again and again takes a twentieth of a step of beams
    except (CheckpointError, RuntimeError) as error:
        channel.send(Failed(str(error)))
        sys.exit(1)
    scheduler = Scheduler(slots=options.slots, max_prefill=options.max_prefill, eos_id=config.eos_id)
    channel.send(Ready(parameters=parameters, device=str(device)))
    try:
        EngineLoop(scheduler, runner, channel, config.bos_id).run()
    except BrokenPipeError:
        # The HTTP process died between two reads; nobody is left to report to.
        logger.warning("the HTTP process is gone")
    except DeviceLost:
        # Every request is given to the next engine, with what was told of it.
        logger.exception("the device is lost")
        sys.exit(1)


def _give_memory_back() -> None:
    """What loading took and does not need any more; the C library keeps it otherwise, if it is glibc."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


if __name__ == "__main__":
    main()
