"""Few users, then ten times as many, then few again; `-u` is how many, `-t` how long (it ends by itself)."""

from typing import Final

from locust import LoadTestShape

from loadtest.load.locustfile import StreamingUser

__all__ = ["Spike", "StreamingUser"]

_TIMES: Final = 10


class Spike(LoadTestShape):
    """A third of `-t` each."""

    use_common_options = True

    def tick(self) -> tuple[int, float] | None:
        """Return the number of users, and how many may start a second."""
        assert self.runner is not None
        options = self.runner.environment.parsed_options
        assert options is not None
        users, seconds = options.num_users or 1, options.run_time or 60
        elapsed: float = self.get_run_time()  # type: ignore[no-untyped-call]
        third = int(3 * elapsed / seconds)
        if third >= 3:
            return None
        many = users * _TIMES if third == 1 else users
        return many, float(many)
