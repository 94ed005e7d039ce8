"""The composition root: settings -> checkpoints -> engines -> translator; `app` adds the routes."""

import logging
import re
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from model.checkpoint_config import CheckpointConfig, CheckpointError, content_id, load_config, load_tokenizer
from service.access.control import AccessControl
from service.api.context import ServiceContext
from service.documents.jobs import DocumentJobs
from service.documents.limits import DocumentLimits
from service.documents.units import UnitReport, read_units
from service.engine.messages import EngineOptions
from service.errors import InvalidRequest
from service.hub.names import HubIndex
from service.live.session import LiveObserver
from service.live.sessions import LiveSessions
from service.observability.metrics import Metrics
from service.registry.configured_models import configured_models
from service.registry.memory_budget import MemoryBudget
from service.registry.process_memory import MEGABYTE
from service.registry.public_models import PublicModels
from service.registry.registry import ModelRegistry
from service.registry.scan import FoundModel
from service.registry.served_model import ServedModel
from service.settings import Settings, UnusableSettingError
from service.stores.glossary_store import GlossaryStore
from service.stores.suggestion_store import SuggestionStore
from service.stores.translation_memory import TranslationMemory
from service.supervisor.cache import SegmentCache, SegmentStore
from service.supervisor.engine_process import EngineProcess
from service.supervisor.fork_server import ForkServer, Zygote
from service.supervisor.pool import EnginePool
from service.translation.options import MAX_BEAM_SIZE, Limits
from service.translation.translator import Translator

logger = logging.getLogger(__name__)

VERSION: Final = version("dragoman")
MAX_PREFILL: Final = 8
"""Sources that an engine encodes in one step: more would hold up running streams."""
MAX_PREFILL_ON_A_GPU: Final = 32
"""A GPU encodes many sources in nearly the time of one."""
ENGINE_TIMEOUT_SECONDS: Final = 30.0
"""An engine that uses the processor, but reports nothing for so long, has hung: its steps take a second at most."""
_OWNED: Final = re.compile("[0-9a-f]{8}=")
"""A memory of one key: the key's label, and the file."""
_GIGABYTE: Final = 1_000 * MEGABYTE


def build_service(settings: Settings, zygote: Zygote | None = None) -> ServiceContext:
    """Build everything that the routes need; engines are not started yet.

    All engines are forks of the `zygote`. Raises `CheckpointError` and `UnusableSettingError`.
    """
    metrics = Metrics(VERSION, settings.mode)
    segments = SegmentStore(settings.cache_mb * MEGABYTE, metrics.cache_observer) if settings.cache_mb else None
    builder = ModelBuilder(settings, metrics, segments, zygote)

    def build(found: FoundModel, path: Path) -> ServedModel:
        return builder.build(found, path, lambda: library.request_load(found))

    library = ModelRegistry(
        configured_models(settings, build),
        build,
        MemoryBudget(None if settings.max_models_memory_mb is None else settings.max_models_memory_mb * MEGABYTE),
        directory=settings.models if isinstance(settings.models, Path) else None,
        public=PublicModels(
            settings.hub_options,
            settings.models if isinstance(settings.models, HubIndex) else None,
            None if settings.cache_limit_gb is None else int(settings.cache_limit_gb * _GIGABYTE),
        ),
        on_change=lambda models: metrics.models_served({each.name: ",".join(each.summary()) for each in models}),
    )
    try:
        store = GlossaryStore(settings.glossaries)
    except OSError as error:
        raise UnusableSettingError(f"glossaries: {error}") from None
    try:
        suggested = SuggestionStore(settings.suggestions)
    except OSError as error:
        raise UnusableSettingError(f"suggestions: {error}") from None
    memory = translation_memory(settings.memory)
    translator = Translator(library, limits_of(settings), memory if settings.memory else None)
    limits = DocumentLimits(max_bytes=settings.max_document_bytes)
    jobs = DocumentJobs(translator, settings.documents, limits, settings.max_documents)
    live = LiveSessions(translator, LiveObserver(metrics.live_updated, metrics.live_overtaken, metrics.live_opened))
    access = AccessControl(settings, metrics.refused)
    return ServiceContext(translator, library, metrics, access, store, suggested, memory, jobs, live)


def translation_memory(given: Sequence[str]) -> TranslationMemory:
    """Read the memories of the setting `memory`. Raises `UnusableSettingError`."""
    files: dict[str, list[Path]] = {}
    for each in given:
        owner, _, path = each.rpartition("=") if _OWNED.match(each) else ("", "", each)
        files.setdefault(owner, []).append(Path(path))
    memory = TranslationMemory(files, lambda path: read_units(path, UnitReport()))
    try:
        memory.load()
    except (InvalidRequest, OSError) as error:
        raise UnusableSettingError(f"memory: {error}") from None
    return memory


class ModelBuilder:
    """Builds served models, whose engines are forks of one zygote."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        segments: SegmentStore | None = None,
        zygote: Zygote | None = None,
    ) -> None:
        """`segments` keeps finished segments, if they are kept."""
        self._settings = settings
        self._metrics = metrics
        self._segments = segments
        self._zygote = zygote or Zygote(settings.log_level, settings.log_format)

    def build(self, found: FoundModel, path: Path, request_load: Callable[[], None] = lambda: None) -> ServedModel:
        """Build the served model of a Dragoman checkpoint: the one found, or the import of it.

        `request_load` is called for requests while no engine runs. Raises `CheckpointError`.
        """
        settings = self._settings
        content = content_id(path)  # before its files are read: each engine compares it when it loads them
        config = load_config(path)
        tokenizer = load_tokenizer(path)
        _check_shortlist(found.name, path, config, settings)
        uses_shortlist = _uses_shortlist(config, settings)
        variant = f"{content} {settings.mode} {settings.device} {'shortlist' if uses_shortlist else 'all words'}"
        cache = None if self._segments is None else SegmentCache(self._segments, variant)
        options = engine_options(path, config, settings, content)
        pool = self.pool(found.name, options, cache, request_load)
        return ServedModel(found.name, config, tokenizer, pool, uses_shortlist=uses_shortlist)

    def pool(
        self,
        name: str,
        options: EngineOptions,
        cache: SegmentCache | None = None,
        request_load: Callable[[], None] = lambda: None,
    ) -> EnginePool:
        """Build the engines of a model, one for each replica, and what distributes requests among them."""
        settings = self._settings
        fork_server = ForkServer(options, self._zygote)
        engines = [
            EngineProcess(fork_server, number, self._metrics.observer(name, number), ENGINE_TIMEOUT_SECONDS)
            for number in range(settings.replicas)
        ]
        return EnginePool(engines, settings.replicas * settings.slots + settings.max_waiting, cache, request_load)


def _uses_shortlist(config: CheckpointConfig, settings: Settings) -> bool:
    return settings.shortlist and config.has_shortlist


def _check_shortlist(name: str, path: Path, config: CheckpointConfig, settings: Settings) -> None:
    """Raise `CheckpointError` where the only model has none; among several, such a model does without."""
    if not settings.shortlist or config.has_shortlist:
        return
    if settings.model is not None:
        raise CheckpointError(
            f"{path}: shortlist: the model has none. Firefox's models have one; import again what an earlier version "
            "has imported"
        )
    logger.info("model has no shortlist and writes all words", extra={"model": name})


def engine_options(path: Path, config: CheckpointConfig, settings: Settings, content: str = "") -> EngineOptions:
    """Build the options of a checkpoint's engines."""
    return EngineOptions(
        checkpoint=str(path.resolve()),
        mode=settings.mode,
        threads=settings.threads,
        slots=settings.slots,
        max_prefill=MAX_PREFILL_ON_A_GPU if settings.device.startswith("cuda") else MAX_PREFILL,
        max_length=config.model.max_positions,
        log_level=settings.log_level,
        device=settings.device,
        content_id=content,
        uses_shortlist=_uses_shortlist(config, settings),
        engines=settings.replicas,
        lends_threads=True,
    )


def limits_of(settings: Settings) -> Limits:
    return Limits(
        max_characters=settings.max_characters,
        max_beam_size=min(settings.slots, MAX_BEAM_SIZE),
        timeout_seconds=settings.request_timeout_seconds,
    )
