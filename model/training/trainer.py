"""The state of a training run and the step that advances it. Knows nothing of corpora, nor of who watches."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel

from model.checkpoint import load_model
from model.checkpoint_config import CheckpointError, load_config
from model.training.config import OptimiserConfig, TrainConfig
from model.training.data import PackedPairs, epoch_batches
from model.training.parallel import Group
from model.transformer import Transformer

_ADVICE: Final = "run it again with a lower learning_rate"

Batch = tuple[Tensor, Tensor]
"""Source and target ids, each `[batch, longest]`, padded on the right."""


@dataclass
class Best:
    """The best validation so far, and how many came after it."""

    loss: float = math.inf
    since: int = 0

    def update(self, loss: float) -> bool:
        """Whether `loss` is the new best."""
        better = loss < self.loss
        self.loss, self.since = (loss, 0) if better else (self.loss, self.since + 1)
        return better


class TrainingError(RuntimeError):
    """Training cannot go on; the last good checkpoint is kept."""


def learning_rate(config: OptimiserConfig, step: int) -> float:
    """Linear warm-up to `learning_rate`, then inverse square root of the step, or half a cosine to 0."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    if config.schedule == "inverse_sqrt":
        return config.learning_rate * math.sqrt(config.warmup_steps / (step + 1))
    done = (step - config.warmup_steps) / max(1, config.max_steps - config.warmup_steps)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def token_loss(logits: Tensor, target_ids: Tensor, pad_id: int, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy in nats, summed over the real tokens of `target_ids [batch, target]`."""
    return F.cross_entropy(
        logits.float().flatten(0, 1),
        target_ids.flatten(),
        ignore_index=pad_id,
        label_smoothing=label_smoothing,
        reduction="sum",
    )


def _moving_average(decay: float) -> Callable[[Sequence[Tensor], Sequence[Tensor], Tensor | int], None]:
    """Exponential, for `AveragedModel`. The decay grows to `decay`: a short run must not ship its random beginning."""

    @torch.no_grad()
    def update(averages: Sequence[Tensor], values: Sequence[Tensor], updates: Tensor | int) -> None:
        seen = int(updates)
        torch._foreach_lerp_(list(averages), list(values), 1 - min(decay, (1 + seen) / (10 + seen)))

    return update


class Trainer:
    """Weights, optimiser, average, and place in the data."""

    def __init__(self, config: TrainConfig, pairs: PackedPairs, validation: PackedPairs, group: Group) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.pairs = pairs
        self.validation = validation
        self.group = group
        self.model = _first_model(config).to(group.device)
        if config.optimiser.compile:
            self.model.compile(dynamic=True)  # in place: the parameters keep their names
        self._parallel = group.wrap(self.model)
        # What is validated and shipped: an average forgets the noise of the last steps.
        self.average = AveragedModel(self.model, multi_avg_fn=_moving_average(config.optimiser.average_decay))
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(),
            lr=0.0,
            betas=(0.9, 0.98),
            eps=1e-9,
            weight_decay=config.optimiser.weight_decay,
            fused=True,
        )
        self.best = Best()
        self.step = 0
        self.epoch = 0
        self.batches_done = 0
        # The same first weights everywhere, other dropout.
        torch.manual_seed(config.seed + group.rank)

    def batches(self) -> Iterator[list[Batch]]:
        """Endless: what this process does in each step, from where the run stands; exact after a resume.

        The few batches at an epoch's end that do not make a whole step are left out of it.
        """
        options = self.config.optimiser
        a_step = options.accumulate * self.group.size
        while True:
            order = epoch_batches(self.pairs, options.batch_tokens, self.config.seed, self.epoch)
            if len(order) < a_step:
                raise TrainingError(f"an epoch has {len(order)} batches, a step needs {a_step}: lower batch_tokens")
            while self.batches_done + a_step <= len(order):
                mine = order[self.batches_done + self.group.rank : self.batches_done + a_step : self.group.size]
                self.batches_done += a_step
                yield [self._to_device(self.pairs.batch(indices, self.config.model.pad_id)) for indices in mine]
            self.epoch, self.batches_done = self.epoch + 1, 0

    def _to_device(self, batch: Batch) -> Batch:
        source, target = batch
        return source.to(self.group.device), target.to(self.group.device)

    def train_step(self, batches: Sequence[Batch]) -> float:
        """One update by the mean over all real target tokens, of every process; returns that loss.

        Raises `TrainingError` when the loss or the gradient is not a number, before any weight changes.
        """
        options = self.config.optimiser
        self.model.train()
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(options, self.step)
        own_tokens = sum(int((target != self.config.model.pad_id).sum()) for _, target in batches)
        [tokens] = self.group.sum(own_tokens)
        self.optimiser.zero_grad(set_to_none=True)
        own_loss = sum(
            self._backward(batch, tokens, is_last=number == len(batches)) for number, batch in enumerate(batches, 1)
        )
        [loss] = self.group.sum(own_loss)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), options.clip_norm).item()
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise TrainingError(f"loss is {loss} and gradient norm {norm} at step {self.step}; {_ADVICE}")
        self.optimiser.step()
        self.average.update_parameters(self.model)
        self.step += 1
        return loss

    def _backward(self, batch: Batch, tokens: float, *, is_last: bool) -> float:
        """Add a batch's share of the gradient; returns its share of the loss."""
        source, target = batch
        options = self.config.optimiser
        # Gradients of several processes are averaged once a step, by the last backward pass.
        with contextlib.nullcontext() if is_last else self.group.no_sync(self._parallel):
            with self._autocast():
                logits = self._parallel(source, target)
            share = token_loss(logits, target, self.config.model.pad_id, options.label_smoothing) / tokens
            (share * self.group.size).backward()  # type: ignore[no-untyped-call]
        return share.item()

    def _autocast(self) -> torch.autocast:
        device = self.group.device.type
        return torch.autocast(device, dtype=torch.bfloat16, enabled=uses_bfloat16(self.config.optimiser, device))

    @torch.inference_mode()
    def validation_loss(self) -> float:
        """Nats per target token of the averaged weights, without label smoothing; all processes must call.

        Raises `TrainingError` when it is not a number: these weights must not replace good ones.
        """
        model = self.averaged_model().eval()
        pad = self.config.model.pad_id
        loss, tokens = 0.0, 0
        batches = epoch_batches(self.validation, self.config.optimiser.batch_tokens, 0, 0)
        for indices in batches[self.group.rank :: self.group.size]:
            source, target = self._to_device(self.validation.batch(indices, pad))
            with self._autocast():
                logits = model(source, target)
            tokens += int((target != pad).sum())
            loss += token_loss(logits, target, pad).item()
        total, count = self.group.sum(loss, tokens)
        if not math.isfinite(total):
            raise TrainingError(f"validation loss is {total} at step {self.step}; {_ADVICE}")
        return total / count

    def averaged_model(self) -> Transformer:
        model = self.average.module
        assert isinstance(model, Transformer)
        return model

    def save(self, path: Path) -> None:
        """Write everything a resume needs, or nothing: the file appears whole. All processes must call."""
        random = self.group.gather(_random_state(self.group.device))
        if not self.group.is_first:
            return
        state = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "place": {"step": self.step, "epoch": self.epoch, "batches_done": self.batches_done},
            "best": asdict(self.best),
            "random": random,
            "fixed": self._fixed(),
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(path)

    def resume(self, path: Path) -> None:
        """Continue exactly where `save` left off; the same number of processes is needed for the same dropout.

        Raises `TrainingError` when the file is broken, or of an experiment that differs in more than how it is
        optimised from here on.
        """
        try:
            state = torch.load(path, weights_only=True, map_location="cpu")
        except (RuntimeError, EOFError, UnpicklingError) as error:
            raise TrainingError(f"{path} cannot be read: {error}") from None
        fixed = self._fixed()
        differing = [name for name in fixed if fixed[name] != state["fixed"].get(name)]
        if differing:
            raise TrainingError(f"{path} is of another experiment: {', '.join(differing)} differ; use another output")
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step = state["place"]["step"]
        self.epoch = state["place"]["epoch"]
        self.batches_done = state["place"]["batches_done"]
        self.best = Best(**state["best"])
        if len(state["random"]) == self.group.size:
            _set_random_state(state["random"][self.group.rank], self.group.device)

    def _fixed(self) -> dict[str, str]:
        """What a resumed run may not change: the model, which batches come in which order, and what losses compare."""
        whole = self.config.model_dump(mode="json")
        options = whole.pop("optimiser")
        whole |= {
            "batch_tokens": options["batch_tokens"],
            # Together: other training text makes another tokenizer, and that other ids of what is validated on.
            "the training or validation text": (self.pairs.digest(), self.validation.digest()),
        }
        return {name: repr(value) for name, value in whole.items()}


def uses_bfloat16(config: OptimiserConfig, device: str) -> bool:
    """Whether matrix products run in bfloat16; "auto" says so where the processor has instructions for it."""
    if config.precision != "auto":
        return config.precision == "bfloat16"
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def check_start(config: TrainConfig) -> None:
    """Raises `TrainingError` where `start_from` is no checkpoint, or one of another shape."""
    if config.start_from is None:
        return
    try:
        start = load_config(config.start_from).model
    except CheckpointError as error:
        raise TrainingError(f"start_from: {error}") from None
    dropout = {"dropout", "attention_dropout"}
    theirs, ours = (model.model_dump(exclude=dropout) for model in (start, config.model))
    differing = [name for name in ours if ours[name] != theirs[name]]
    if differing:
        values = ", ".join(f"{name} {theirs[name]} where [model] says {ours[name]}" for name in differing)
        raise TrainingError(f"start_from: {config.start_from} has {values}")


def _first_model(config: TrainConfig) -> Transformer:
    if config.start_from is None:
        return Transformer(config.model)
    model = Transformer(config.model)
    model.load_state_dict(load_model(config.start_from).state_dict())
    return model


def _random_state(device: torch.device) -> list[Tensor]:
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def _set_random_state(states: list[Tensor], device: torch.device) -> None:
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
