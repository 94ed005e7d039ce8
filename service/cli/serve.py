"""The command `dragoman serve`."""

import gc
import logging

import typer

from model.checkpoint_config import CheckpointError
from service.cli.common import fail
from service.cli.settings_options import takes_settings
from service.hub.names import HubIndex
from service.settings import Settings, UnusableSettingError, unknown_variables

logger = logging.getLogger(__name__)


@takes_settings
def serve(settings: Settings) -> None:
    """Run the server.

    Each option is also an environment variable: --max-waiting is DRAGOMAN_MAX_WAITING. Options win over variables.
    """
    from service.process import logs
    from service.supervisor.fork_server import Zygote

    logs.configure(settings.log_level, settings.log_format)
    zygote = Zygote(settings.log_level, settings.log_format)
    if not isinstance(settings.models, HubIndex):
        zygote.launch()  # it imports PyTorch while this process imports all that follows

    gc.disable()  # nothing of what is imported is garbage, and looking for it takes a sixth of the time
    from service.server.app import create_app
    from service.server.server import DrainingServer, listen, url_of
    from service.server.shutdown import ShutdownDeadline, end_at_sigterm

    gc.enable()
    for problem in unknown_variables():
        logger.warning(problem)
    failures: list[str] = []

    def on_failure(reason: str) -> None:
        failures.append(reason)
        server.should_exit = True

    def on_ready() -> None:
        logger.info("ready", extra={"open": url_of(listening)})

    deadline = ShutdownDeadline()
    end_at_sigterm(deadline)
    try:
        server = DrainingServer(create_app(settings, on_failure, on_ready, zygote), settings, deadline)
        # Before any engine is started: a port in use is reported at once.
        listening = listen(settings)
    except (CheckpointError, UnusableSettingError) as error:
        fail(str(error))
    else:
        server.run(sockets=[listening])
    finally:
        zygote.discard()
    if failures:
        fail("; ".join(failures))
    if not server.started:
        raise typer.Exit(1)
