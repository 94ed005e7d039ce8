"""A model that is served: its languages, its tokenizer, its limits and its engines."""

from collections.abc import Hashable

from model.manifest import CheckpointConfig
from model.tokenizer import Tokenizer
from service.engine.pool import EnginePool


class ServedModel:
    """One checkpoint and the engines that run it. Knows no other model."""

    def __init__(
        self,
        name: str,
        config: CheckpointConfig,
        tokenizer: Tokenizer,
        pool: EnginePool,
        max_sentence_tokens: int | None = None,
    ) -> None:
        """`max_sentence_tokens` is the deployment's wish; None leaves half of the positions to a sentence."""
        positions = config.model.max_positions
        self.name = name
        self.directions = tuple(config.all_directions())
        self.tokenizer = tokenizer
        self.pool = pool
        self.max_sentence_tokens = min(max_sentence_tokens or positions, positions // 2)
        """Longer ones are cut. With room for a translation that is longer than its source."""
        self.max_new_tokens = positions - len(config.prompt.target_prefix)
        self._users: set[Hashable] = set()

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses it."""
        return not self._users

    def acquire(self, user: Hashable) -> None:
        """It stays loaded until all its users have released it."""
        self._users.add(user)

    def release(self, user: Hashable) -> None:
        """May be called twice."""
        self._users.discard(user)
