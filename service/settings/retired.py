"""Settings that are gone, each with the sentence that says what took its place."""

from collections.abc import Mapping
from typing import Final

RETIRED: Final[Mapping[str, str]] = {
    "cpu_variant": "the best instruction set is chosen; `python -m loadtest.bench --cpu-variant` measures another one",
    "document_expiry_seconds": "a translated document that nobody downloads is deleted after an hour",
    "engine_timeout_seconds": "an engine is replaced after 30 seconds without a report",
    "keep_alive_seconds": "an idle stream gets a comment every 15 seconds",
    "lend_threads": "engines always lend their threads; `python -m loadtest.bench --no-lend-threads` measures without",
    "max_body_bytes": "a body may have 2,000,000 bytes, or 12 for each of max_characters if that is more",
    "max_document_characters": "a document may have 1,000,000 characters",
    "max_import_mb": "an import takes up to 20,000 MB; `dragoman import` and `dragoman pull` have --max-mb for more",
    "max_prefill": "an engine encodes up to 8 sources in one step (32 on a GPU)",
    "max_segments_in_flight": "16 segments of a request are decoded at once",
    "max_sentence_tokens": "each checkpoint's config.json has its own max_sentence_tokens",
    "max_texts": "a request has up to 1,024 texts",
    "models_poll_seconds": "a directory of models is read every 5 seconds",
    "receive_timeout_seconds": "client_timeout_seconds is the time for both directions",
    "restore_capitals": "capitals are always restored",
    "send_timeout_seconds": "client_timeout_seconds is the time for both directions",
}


def refusal(flag_or_variable: str) -> str | None:
    """Return the error for a flag or a variable that was a setting's; None for any other."""
    flag = flag_or_variable.removeprefix("--").removeprefix("no-").replace("-", "_")
    name = flag.lower().removeprefix("dragoman_")
    return f"{flag_or_variable} is no setting any more: {RETIRED[name]}" if name in RETIRED else None
