"""The models that the settings name, as versions for the registry to load."""

import logging
from pathlib import Path

from model.checkpoint_config import CheckpointError, Direction
from service.hub.names import HubIndex, HubName, hidden_name
from service.registry.importing import ensure_imported
from service.registry.loading import Build
from service.registry.model_version import ModelVersion, State
from service.registry.scan import FoundModel, ignored_entries, scan
from service.settings import Settings, UnusableSettingError

logger = logging.getLogger(__name__)


def configured_models(settings: Settings, build: Build) -> list[ModelVersion]:
    """Return the models of the settings, none of which is loaded yet.

    Only a single checkpoint is read now; the registry downloads, imports and reads others in the background, and lists
    an index itself. Raises `CheckpointError` and `UnusableSettingError`.
    """
    if isinstance(settings.model, HubName):
        return [_named_model(settings.model)]
    if settings.model is not None:
        if hidden := hidden_name(settings.model):
            logger.info("%s is the directory here; %s is the public model", settings.model, hidden)
        return [_single_model(settings.model, build)]
    if isinstance(settings.models, Path):
        return _models_in(settings.models)
    if isinstance(settings.models, HubIndex):
        return []
    return [_named_model(each, on_demand=settings.on_demand) for each in settings.models]


def _models_in(directory: Path) -> list[ModelVersion]:
    models = scan(directory)
    if odd := ignored_entries(directory, models):
        logger.warning("ignored entries, which are no models: %s", ", ".join(odd))
    if not models:
        raise CheckpointError(f"{directory}: there is no checkpoint in it")
    return [ModelVersion(each) for each in models.values()]


def _named_model(model: Path | HubName, *, on_demand: bool = False) -> ModelVersion:
    """Return a model that is downloaded or imported in the background, or at the first request for it."""
    if isinstance(model, HubName):
        if on_demand and model.languages is not None:
            source, target = model.languages
            directions = [Direction(source=source, target=target)]
            return ModelVersion(FoundModel(str(model), model, ""), State.REMOTE, directions=directions)
        return ModelVersion(FoundModel(str(model), model, ""), State.DOWNLOADING)
    return ModelVersion(FoundModel(model.resolve().name, model, ""))


def _single_model(location: Path, build: Build) -> ModelVersion:
    """Read a checkpoint, so that an error in it is reported before the server starts."""
    found = FoundModel(location.resolve().name, location, "")
    try:
        path = ensure_imported(location)
    except OSError as error:
        raise UnusableSettingError(f"model: {error}") from None
    return ModelVersion(found, model=build(found, path))
