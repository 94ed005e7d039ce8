"""The learning rate over a run, by steps or by the clock, and when the run is over. Pure arithmetic."""

import math
from dataclasses import dataclass

from model.training.config import OptimiserConfig


@dataclass
class Decay:
    """A final decay, requested during a run: where it begins, and how many steps or seconds it takes."""

    first_step: int
    first_second: float
    steps: float
    seconds: float
    first_factor: float = 1.0
    """Factor of the learning rate at its beginning: less than 1 in a run that was decaying already."""

    @classmethod
    def now(cls, options: OptimiserConfig, step: int, second: float, minutes: float | None) -> "Decay":
        """Begin a decay that takes `minutes`, or without them the share `options.decay` of all steps."""
        factor = _factor(options, share_left(options, step, second))
        if minutes is not None:
            return cls(step, second, math.inf, 60 * minutes, factor)
        return cls(step, second, max(1.0, step * options.decay / (1 - options.decay)), math.inf, factor)

    def left(self, step: int, second: float) -> float:
        """Return the share of the decay that is left, from 1 to 0."""
        done = max((step - self.first_step) / self.steps, (second - self.first_second) / self.seconds)
        return max(0.0, 1.0 - done)


def share_left(options: OptimiserConfig, step: int, second: float) -> float:
    """Return the share of a run that is left after `step` steps and `second` seconds, from 1 to 0."""
    done = step / options.max_steps
    if options.minutes is not None:
        done = max(done, second / 60 / options.minutes)
    return max(0.0, 1.0 - done)


def is_decaying(options: OptimiserConfig, step: int, second: float, decay: Decay | None) -> bool:
    """Return True in the last part of a flat run, when its learning rate falls."""
    return decay is not None or (options.schedule == "flat" and share_left(options, step, second) < options.decay)


def is_over(options: OptimiserConfig, step: int, second: float, decay: Decay | None) -> bool:
    """Return True when nothing of the run is left."""
    return (share_left(options, step, second) if decay is None else decay.left(step, second)) <= 0.0


def learning_rate(options: OptimiserConfig, step: int, second: float, decay: Decay | None = None) -> float:
    """Linear warm-up, then half a cosine to 0, or flat and at the end linear to 0."""
    warm = min(1.0, (step + 1) / options.warmup_steps)
    if decay is not None:
        factor = decay.first_factor * decay.left(step, second)
    else:
        factor = _factor(options, share_left(options, step, second))
    return options.learning_rate * warm * factor


def _factor(options: OptimiserConfig, left: float) -> float:
    """Return the schedule's factor of the learning rate where the share `left` of the run is left."""
    if options.schedule == "cosine":
        return 0.5 * (1 - math.cos(math.pi * left))
    return min(1.0, left / options.decay)
