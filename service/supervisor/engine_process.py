"""Supervision of one engine process: its start, its commands and reports, its death and its replacement.

Its requests are in `engine_requests`.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import msgspec

from service.engine.messages import Admitted, Command, Failed, Frames, Ready, Report, StepReport, Submit, frame
from service.errors import EngineFailed
from service.supervisor.engine_requests import EngineObserver, EngineRequests
from service.supervisor.fork_server import ForkServer
from service.supervisor.forks import Engine, UnusableCheckpoint, Watchdog, reap
from service.supervisor.generation import Generation

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 1 << 16
_CHECK_SECONDS: Final = 1.0
_STANDSTILL_SECONDS: Final = 4.0
_FIRST_BACKOFF_SECONDS: Final = 0.1
_LONGEST_BACKOFF_SECONDS: Final = 10.0
_LONGEST_REFUSED_BACKOFF_SECONDS: Final = 1.0
"""The longest back-off while requests wait for usable files of the checkpoint, which they do not do for long."""
_STABLE_SECONDS: Final = 1.0
"""The death of an engine that was ready for so long was not caused by its start, and is no reason to wait."""
_STOP_SECONDS: Final = 5.0
# From the fork: the model is loaded, but may have to be copied to a GPU and its graphs be recorded.
_READY_SECONDS: Final = 120.0


class EngineProcess:
    """The supervisor of one engine process, the `replica`-th of a model.

    An engine that has work and reports nothing for `timeout_seconds`, or takes no processor time for a few seconds,
    is killed and replaced like one that died.
    """

    def __init__(
        self, fork_server: ForkServer, replica: int, observer: EngineObserver, timeout_seconds: float = 30.0
    ) -> None:
        self.fork_server = fork_server
        self._options = fork_server.options
        self._replica = replica
        self._timeout_seconds = timeout_seconds
        self._last_report_at = 0.0
        self._ready_at = math.inf
        self._observer = observer
        self.slots = fork_server.options.slots
        self.slots_used = 0
        """The number of slots in use in the engine's last report; 0 without an engine."""
        self.requests = EngineRequests(observer, self._send)
        self._engine: Engine | None = None
        self._unsent: list[bytes] = []
        self._supervisor: asyncio.Task[None] | None = None
        self._reaping: set[asyncio.Task[None]] = set()
        self._loaded = asyncio.Event()
        self._start_failure: str | None = None
        self._started = asyncio.Event()
        self.refusal: str | None = None
        """The reason why the checkpoint on the disk cannot be used for another engine; None until that is so."""
        self._on_change: Callable[[], None] = lambda: None

    @property
    def pid(self) -> int | None:
        """The id of the engine process, while there is one."""
        return None if self._engine is None else self._engine.pid

    @property
    def ready(self) -> bool:
        return self._loaded.is_set()

    @property
    def available(self) -> bool:
        """True if there is an engine that takes new requests: it is not reserved for suspects."""
        return self.ready and not self.requests.has_suspects

    def start(self, on_change: Callable[[], None] = lambda: None) -> None:
        """Begin supervision and return at once; also possible after a stop.

        `on_change` is called when the engine has died or started, and when it can take other requests than suspects
        again.
        """
        self._on_change = on_change
        self._started = asyncio.Event()
        self._start_failure = None
        self.fork_server.acquire(self)
        self._supervisor = asyncio.create_task(self._supervise())

    async def wait_until_started(self) -> None:
        """Wait until the first start has succeeded; raise `EngineFailed` if it has failed or was stopped."""
        await self._started.wait()
        if self._start_failure is not None:
            raise EngineFailed(self._start_failure)

    def stop(self, reason: str = "the engine was stopped") -> Coroutine[Any, Any, None]:
        """End the engine process; requests in flight get an error, later ones wait for the next start.

        Requests are later if they come after the call, not after it is awaited.
        """
        return self._stop(self.requests.in_flight, reason)

    async def _stop(self, held: Sequence[Generation], reason: str) -> None:
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
        await self.fork_server.release(self)
        await asyncio.gather(*self._reaping)
        self.requests.fail(held, EngineFailed(reason))
        if not self._started.is_set():
            self._start_failure = reason
            self._started.set()

    def _send(self, command: Command) -> None:
        assert self._engine is not None
        if isinstance(command, Submit) and self.requests.sent == 1:
            self._last_report_at = command.submitted_at  # it had nothing to report before
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._write, self._engine)
        self._unsent.append(frame(command))

    def _write(self, engine: Engine) -> None:
        """Write the commands of this turn of the event loop together: each write has its price."""
        if engine is not self._engine:
            return  # the next engine gets its own commands
        commands, self._unsent = b"".join(self._unsent), []
        # Not awaited, and not sent to an engine that is already dead: the state is in the generations, and the next
        # engine gets it.
        if not engine.commands.is_closing():
            engine.commands.write(commands)

    async def _supervise(self) -> None:
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            self._ready_at = math.inf
            try:
                await self._run_once()
            except EngineFailed as error:
                logger.error("engine cannot start", extra={"reason": str(error)})
                self._start_failure = str(error)
                self.refusal = str(error) if isinstance(error, UnusableCheckpoint) else None
            except Exception:
                # Most likely no descriptors or memory for a process: as bad as a death, and as temporary.
                logger.exception("the engine process could not be run")
            finally:
                self._loaded.clear()
                is_explained = self.requests.engine_ended()
                self.slots_used = 0
                self._on_change()
                await self._end()
            if not self._started.is_set():
                # A restart would not help a first start that failed.
                self._start_failure = self._start_failure or "the engine process ended before it was ready"
                self._started.set()
                return
            if is_explained or time.monotonic() - self._ready_at > _STABLE_SECONDS:
                backoff = _FIRST_BACKOFF_SECONDS
            is_awaited = self.refusal is not None and len(self.requests) > 0
            backoff = min(backoff, _LONGEST_REFUSED_BACKOFF_SECONDS if is_awaited else _LONGEST_BACKOFF_SECONDS)
            self._observer.restarted()
            logger.error("engine process ended, starting another", extra={"backoff_seconds": backoff})
            await asyncio.sleep(backoff)
            backoff *= 2

    async def _run_once(self) -> None:
        """Start an engine and read its reports until it is gone."""
        self._engine = engine = await self.fork_server.fork(self._replica)
        self._last_report_at = time.monotonic()
        watchdog = Watchdog(engine.pid, _STANDSTILL_SECONDS)
        frames = Frames()
        decoder = msgspec.msgpack.Decoder(Report)
        while data := await self._read(engine, watchdog):
            self._last_report_at = time.monotonic()
            for body in frames.feed(data):
                self._handle(decoder.decode(body))

    async def _read(self, engine: Engine, watchdog: Watchdog) -> bytes:
        """Return what the engine reports next; b"" when it has ended, or was silent for too long."""
        while True:
            try:
                async with asyncio.timeout(_CHECK_SECONDS):
                    return await engine.reports.read(_READ_BYTES)
            except ConnectionError:
                return b""  # it died with commands unread
            except TimeoutError:
                if self._has_hung(watchdog):
                    silent_seconds = time.monotonic() - self._last_report_at
                    logger.error("the engine has hung", extra={"silent_seconds": silent_seconds})
                    engine.kill()
                    return b""

    def _has_hung(self, watchdog: Watchdog) -> bool:
        if not self.ready:
            return time.monotonic() - self._last_report_at > _READY_SECONDS
        return len(self.requests) > 0 and watchdog.is_hung(self._last_report_at, self._timeout_seconds)

    async def _end(self) -> None:
        """Wait until the engine has ended; commands that were not written yet are not for the next one."""
        engine, self._engine = self._engine, None
        self._unsent = []
        if engine is None:
            return
        await engine.end(_STOP_SECONDS)
        # Not awaited: a zombie must not delay the next engine.
        reaping = asyncio.create_task(reap(engine.pid))
        self._reaping.add(reaping)
        reaping.add_done_callback(self._reaping.discard)

    def _handle(self, report: Report) -> None:
        match report:
            case Admitted():
                self.requests.handle_admitted(report)
            case StepReport():
                self.slots_used = report.stats.slots_used
                had_suspects = self.requests.has_suspects
                self.requests.handle_step(report)
                if had_suspects and not self.requests.has_suspects:
                    self._on_change()
            case Ready(parameters, device):
                facts = {"parameters": parameters, "mode": self._options.mode, "device": device}
                logger.info("engine ready", extra=facts)
                self._start_failure = self.refusal = None
                self._ready_at = time.monotonic()
                self._loaded.set()
                self._started.set()
                self.requests.engine_started()
                self._on_change()
            case Failed(reason):
                logger.error("engine cannot start", extra={"reason": reason})
                self._start_failure = reason
