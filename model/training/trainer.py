"""The state of a training run and the step that advances it. Knows nothing of corpora, nor of who watches."""

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from model.training.config import TrainConfig
from model.training.device import random_state, set_random_state
from model.training.loss import packed_cross_entropy
from model.training.optimisers import build_optimisers
from model.training.pack import Pack
from model.training.packing import RowLengths
from model.training.report import Report
from model.training.rows import Batch, Place, batches, validation_batches
from model.training.schedule import Decay, is_decaying, is_over, learning_rate, share_left
from model.training.state import TrainingError, first_model, read_state, write_state
from model.training.working_copy import WorkingCopy
from model.transformer import Transformer

_ADVICE: Final = "run it again with a lower learning_rate"


@dataclass
class Best:
    """The best validation so far, and how many came after it."""

    loss: float = math.inf
    since: int = 0

    def update(self, loss: float) -> bool:
        """Take a validation; returns True for a new best."""
        better = loss < self.loss
        self.loss, self.since = (loss, 0) if better else (self.loss, self.since + 1)
        return better


def _moving_average(decay: float) -> Callable[[Sequence[Tensor], Sequence[Tensor], Tensor | int], None]:
    """Exponential, for `AveragedModel`. The decay grows to `decay`: a short run must not ship its random beginning."""

    @torch.no_grad()
    def update(averages: Sequence[Tensor], values: Sequence[Tensor], updates: Tensor | int) -> None:
        seen = int(updates)
        torch._foreach_lerp_(list(averages), list(values), 1 - min(decay, (1 + seen) / (10 + seen)))

    return update


class Trainer:
    """Weights, optimisers, average, and place in the data.

    No step waits for the device: losses add up there, and `report` looks at them.
    """

    def __init__(self, config: TrainConfig, pack: Pack, device: torch.device, workers: int = 1) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self._device = device
        self._pack = pack
        self._workers = workers
        self.model = first_model(config).to(device)
        self._working = WorkingCopy(self.model, config.optimiser, device)
        # What is validated and shipped: an average forgets the noise of the last steps.
        self.average = AveragedModel(self.model, multi_avg_fn=_moving_average(config.optimiser.average_decay))
        self._start = copy.deepcopy(self.model) if config.start_share else None
        self._optimisers = build_optimisers(self.model, config.optimiser)
        self._row_lengths = RowLengths.of(pack.train, config.optimiser.row_tokens)
        self._validation = validation_batches(pack.validation, self._row_lengths, config.optimiser.rows)
        self.best = Best()
        self.decay: Decay | None = None
        self.step = 0
        self.tokens = 0
        self.place = Place()
        self._seconds = 0.0
        self._since = time.monotonic()
        # Of the steps since the last report.
        self._nats = torch.zeros((), device=device)
        self._new_tokens = self._new_target_tokens = 0
        self._norm = torch.zeros((), device=device)
        # Dropout does not depend on how many numbers the first weights have taken.
        torch.manual_seed(config.seed)

    @property
    def seconds(self) -> float:
        """The time that this run has taken, with all its earlier parts."""
        return self._seconds + time.monotonic() - self._since

    def is_over(self) -> bool:
        """Return True when the schedule has come to its end."""
        return is_over(self.config.optimiser, self.step, self.seconds, self.decay)

    def decay_now(self, minutes: float | None = None) -> None:
        """Let the learning rate fall to 0 from here on; see `Decay.now`. A requested decay that has begun goes on.

        Raises `TrainingError` when the run is over by its schedule: the rate is 0 already.
        """
        if self.decay is None:
            if is_over(self.config.optimiser, self.step, self.seconds, None):
                raise TrainingError(f"the run is over at step {self.step}: its learning rate is 0 and cannot decay")
            self.decay = Decay.now(self.config.optimiser, self.step, self.seconds, minutes)

    def batches(self) -> Iterator[list[Batch]]:
        """Yield the batches of each step, without end; exact after a resume.

        Pieces are sampled until the learning rate decays.
        """
        while True:
            sampled = not self._is_decaying()
            found = batches(
                self._pack,
                self.config,
                self.place,
                sampled=sampled,
                workers=self._workers,
                pin=self._device.type == "cuda",
            )
            while sampled is not self._is_decaying():
                step = [next(found) for _ in range(self.config.optimiser.accumulate)]
                self.place = step[-1][1]
                yield [batch.to(self._device) for batch, _ in step]

    def _is_decaying(self) -> bool:
        return is_decaying(self.config.optimiser, self.step, self.seconds, self.decay)

    def train_step(self, step: Sequence[Batch]) -> None:
        """Update the weights once, by the mean over all real target tokens."""
        options = self.config.optimiser
        tokens = sum(batch.source_tokens + batch.target_tokens for batch in step)
        target_tokens = sum(batch.target_tokens for batch in step)
        self._working.train()
        for batch in step:
            nats = self._working.nats(batch, options.label_smoothing)
            (nats / target_tokens).backward()  # type: ignore[no-untyped-call]
            self._nats += nats.detach()
        self._working.hand_over_gradients()
        self._norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), options.clip_norm)
        rate = learning_rate(options, self.step, self.seconds, self.decay)
        for optimiser in self._optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self._working.take_weights()
        self.average.update_parameters(self.model)
        self.step += 1
        self.tokens += tokens
        self._new_tokens += tokens
        self._new_target_tokens += target_tokens

    def report(self) -> Report:
        """Return the steps since the last report; waits for the device.

        Raises `TrainingError` when the loss or the gradient is not a number: nothing may be saved then.
        """
        loss = self._nats.item() / max(1, self._new_target_tokens)
        norm = self._norm.item()
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise TrainingError(f"loss is {loss} and gradient norm {norm} at step {self.step}; {_ADVICE}")
        options, seconds = self.config.optimiser, self.seconds
        rate = learning_rate(options, self.step - 1, seconds, self.decay)
        left = share_left(options, self.step, seconds)
        last = round(self.step / (1 - left)) if left < 1 else None
        report = Report(self.step, loss, rate, self._new_tokens, self.tokens, seconds / 3600, last)
        self._nats.zero_()
        self._new_tokens = self._new_target_tokens = 0
        return report

    @torch.inference_mode()
    def validation_loss(self) -> float:
        """Nats per target token of the averaged weights, without label smoothing.

        Raises `TrainingError` when it is not a number: these weights must not replace good ones.
        """
        model = self.averaged_model().eval()
        pad, nats, tokens = self.config.model.pad_id, 0.0, 0
        for batch in self._validation:
            source, target, _, count = batch.to(self._device)
            nats += packed_cross_entropy(model.teach(source, target), model.projection, target, pad).item()
            tokens += count
        if not math.isfinite(nats):
            raise TrainingError(f"validation loss is {nats} at step {self.step}; {_ADVICE}")
        return nats / tokens

    @torch.no_grad()
    def averaged_model(self) -> Transformer:
        """Return the weights to ship. Between the average and the start (Wortsman et al. 2022) less is forgotten."""
        model = self.average.module
        assert isinstance(model, Transformer)
        if self._start is not None:
            model = copy.deepcopy(model)
            starts: list[Tensor] = [*self._start.parameters()]
            torch._foreach_lerp_([*model.parameters()], starts, self.config.start_share)
        return model

    def save(self, path: Path) -> None:
        """Write everything a resume needs, or nothing: the file appears whole."""
        state = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self._optimisers],
            "place": asdict(self.place),
            "progress": {"step": self.step, "tokens": self.tokens, "seconds": self.seconds},
            "decay": None if self.decay is None else asdict(self.decay),
            "best": asdict(self.best),
            "random": random_state(self._device),
            "fixed": self._fixed(),
        }
        write_state(path, state)

    def resume(self, path: Path) -> None:
        """Continue exactly where `save` left off.

        Raises `TrainingError` when the file is broken, or belongs to another experiment (`_fixed`).
        """
        state = read_state(path, self._fixed())
        self.model.load_state_dict(state["model"])
        self._working.take_weights()
        self.average.load_state_dict(state["average"])
        for optimiser, saved in zip(self._optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.place = Place(**state["place"])
        self.step, self.tokens, self._seconds = (state["progress"][name] for name in ("step", "tokens", "seconds"))
        self._since = time.monotonic()
        self.decay = None if state["decay"] is None else Decay(**state["decay"])
        self.best = Best(**state["best"])
        set_random_state(state["random"], self._device)

    def _fixed(self) -> dict[str, str]:
        """Return the fields that a resumed run may not change.

        They decide the model, the kind of the optimisers' states, and the text with the place in it.
        """
        options = self.config.optimiser
        return {
            "model": self.config.model.model_dump_json(),
            "optimiser.algorithm": options.algorithm,
            "the pack": self._pack.info.own_sha256,
            "seed": str(self.config.seed),
            "data.augment": self.config.data.augment.model_dump_json(),
            "optimiser.row_tokens": str(options.row_tokens),
            "optimiser.batch_tokens": str(options.batch_tokens),
            "optimiser.subword_sampling": str(options.subword_sampling),
        }
