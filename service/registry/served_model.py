"""A served model: its languages, its tokenizer, its limits and its engines."""

import asyncio
from collections.abc import Hashable, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

from model.checkpoint_config import CheckpointConfig
from model.tokenizer import Tokenizer
from service.engine.generation_request import GenerationRequest, Prompt, Search
from service.errors import NotReady
from service.supervisor.pool import EnginePool

CLOSING: Final = frozenset(".!?…。！？")
"""The punctuation that ends a sentence."""
_PROBE_TEXT: Final = "Hello."
_PROBE_TOKENS: Final = 32
_PROBE_SECONDS: Final = 60.0


class ServedModel:
    """One checkpoint and its engines, which may be running or not. Knows no other model."""

    def __init__(
        self,
        name: str,
        config: CheckpointConfig,
        tokenizer: Tokenizer,
        pool: EnginePool,
        *,
        uses_shortlist: bool = False,
    ) -> None:
        positions = config.model.max_positions
        self.name = name
        self.directions = tuple(config.all_directions())
        self.languages = config.languages
        """Languages that are all translated into one another, reported instead of thousands of directions."""
        self.listed = tuple(map(str, config.directions))
        """The directions that `languages` does not cover."""
        self.origin = config.origin
        """The public model that it was made of, if it was downloaded by name."""
        self.tokenizer = tokenizer
        self.pool = pool
        self.max_sentence_tokens = min(config.max_sentence_tokens or positions, positions // 2)
        """Longer sentences are cut; leaves room for a translation that is longer than its source."""
        self.max_new_tokens = positions - len(config.prompt.target_prefix)
        self.uses_shortlist = uses_shortlist
        """True if its translations have only words of its lexical shortlist."""
        self._users: set[Hashable] = set()
        self._unused = asyncio.Event()
        self._unused.set()

    def acquire(self, user: Hashable) -> None:
        """Keep the model in service for a user, until every user has released it."""
        self._users.add(user)
        self._unused.clear()

    def release(self, user: Hashable) -> None:
        """Undo `acquire`; may be called twice."""
        self._users.discard(user)
        if not self._users:
            self._unused.set()

    @property
    def in_use(self) -> bool:
        """True while a user keeps it in service."""
        return bool(self._users)

    def summary(self) -> list[str]:
        """Return what the model translates, for display."""
        return [*self.listed, *([f"{len(self.languages)} languages"] if self.languages else [])]

    @cached_property
    def closing_ids(self) -> Sequence[int]:
        """Token ids of the punctuation that ends a sentence, after a word or a space."""
        written = (self.tokenizer.encode_target(f"a{space}{mark}")[-1:] for mark in CLOSING for space in ("", " "))
        last = sorted(set(chain.from_iterable(written)))
        return [each for each in last if self.tokenizer.piece_bytes(each).decode(errors="replace").strip() in CLOSING]

    async def wait_until_unused(self) -> None:
        await self._unused.wait()

    async def wait_for_engines(self, seconds: float) -> None:
        """Wait while dead engines are replaced; raises `NotReady` after `seconds`, or if they cannot be.

        Returns at once for a model that is loaded on demand: that may take longer.
        """
        if self.pool.replacing and not await self.pool.wait_until_loaded(seconds):
            raise NotReady(self.pool.refusal or "the engines are being replaced; try again in a moment")

    async def load(self) -> None:
        """Start the engines and translate a word, as an engine's first step may be slow.

        Raises `ServiceError`; the caller then stops the engines.
        """
        self.pool.start()
        await self.pool.wait_until_started()
        source, target = self.directions[0].codes()
        ids = self.tokenizer.encode(_PROBE_TEXT, target, source)
        prompt = self.tokenizer.target_prefix(target, source)
        length = min(_PROBE_TOKENS, self.max_new_tokens)
        reader = self.pool.submit(GenerationRequest(Prompt(ids, list(prompt)), Search(length)))
        deadline = asyncio.get_running_loop().time() + _PROBE_SECONDS
        try:
            while await reader.read(deadline):
                pass
        finally:
            reader.close()
