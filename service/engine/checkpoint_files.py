"""The files of a checkpoint, compared with those whose tokenizer the HTTP process has read. Knows no torch."""

from pathlib import Path

from model.checkpoint_config import CheckpointError, content_id
from service.engine.messages import EngineOptions


def check_unchanged(options: EngineOptions) -> None:
    """Raise `CheckpointError` for missing files, and for others than the HTTP process has read."""
    checkpoint = Path(options.checkpoint)
    if options.content_id and content_id(checkpoint) != options.content_id:
        raise CheckpointError(
            f"{checkpoint}: its files have changed since the server read them; restore them, or restart the server"
        )
