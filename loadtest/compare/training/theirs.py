"""Their side: `transformers`' Seq2SeqTrainer on a MarianMTModel.

With what makes it fastest: fused AdamW, SDPA, no cache, alike lengths together, no logging. The only file
here that needs `transformers` and `accelerate`.
"""

import tempfile
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from tokenizers import Tokenizer as WordTokenizer
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import (
    DataCollatorForSeq2Seq,
    MarianMTModel,
    PreTrainedTokenizerFast,
    PrinterCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
)

from loadtest.compare.marian import marian_config
from loadtest.compare.training.meter import Meter, Trained
from loadtest.compare.training.work import OPTIMISER, WARM_UP, Job, pairs_a_batch, shared_batches
from model.config import ModelConfig
from model.training.trainer import Batch

_IGNORED: Final = -100  # `transformers`' mark for a label that is padding


def train_theirs(job: Job) -> Trained:
    """One turn, in this process."""
    torch.manual_seed(job.seed)
    # Any: transformers' annotations do not accept its own classes.
    model: Any = MarianMTModel(
        marian_config(
            job.model, dropout=job.model.dropout, attention_dropout=job.model.attention_dropout, use_cache=False
        )
    )
    model.set_attn_implementation("sdpa")
    meter = Meter(job.model.pad_id)
    with tempfile.TemporaryDirectory() as directory:
        trainer = _MeteredTrainer(
            job.model,
            meter,
            model=model,
            args=_arguments(job, directory),
            train_dataset=dataset(job),
            data_collator=_first if job.mode == "steps" else collator(model, job.model),
            callbacks=[_StepEnds(meter)],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    inputs = {name: ids[:2] for name, ids in trainer.last_inputs.items() if name != "labels"}
    return meter.trained(model, lambda: model(**inputs).logits)


def _arguments(job: Job, directory: str) -> Seq2SeqTrainingArguments:
    return Seq2SeqTrainingArguments(
        output_dir=directory,
        max_steps=WARM_UP + job.steps,
        per_device_train_batch_size=1 if job.mode == "steps" else pairs_a_batch(job),
        train_sampling_strategy="sequential" if job.mode == "steps" else "group_by_length",
        optim="adamw_torch_fused",
        learning_rate=OPTIMISER.learning_rate,
        lr_scheduler_type=OPTIMISER.schedule,
        warmup_steps=OPTIMISER.warmup_steps,
        adam_beta1=0.9,
        adam_beta2=0.98,
        adam_epsilon=1e-9,
        weight_decay=OPTIMISER.weight_decay,
        max_grad_norm=OPTIMISER.clip_norm,
        label_smoothing_factor=OPTIMISER.label_smoothing,
        bf16=job.precision == "bfloat16",
        seed=job.seed,
        use_cpu=True,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        save_strategy="no",
        logging_strategy="no",
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
    )


def dataset(job: Job) -> list[dict[str, Any]]:
    """Rows that are pairs; in mode `steps`, rows that are whole batches."""
    if job.mode == "steps":
        return [dict(as_marian_inputs(batch, job.model)) for batch in shared_batches(job)]
    runs = [run.tolist() for run in np.split(job.pairs.ids, job.pairs.offsets[1:-1])]
    return [
        {"input_ids": source, "attention_mask": [1] * len(source), "labels": target}
        for source, target in zip(runs[::2], runs[1::2], strict=True)
    ]


def as_marian_inputs(batch: Batch, config: ModelConfig) -> dict[str, Tensor]:
    """What DataCollatorForSeq2Seq would have made of the same pairs."""
    source, target = batch
    decoder_inputs = target.roll(1, dims=1)
    decoder_inputs[:, 0] = config.bos_id
    return {
        "input_ids": source,
        "attention_mask": (source != config.pad_id).long(),
        "labels": target.masked_fill(target == config.pad_id, _IGNORED),
        "decoder_input_ids": decoder_inputs,
    }


def as_batch(inputs: Mapping[str, Tensor], config: ModelConfig) -> Batch:
    """The way back."""
    labels = inputs["labels"]
    return inputs["input_ids"], labels.masked_fill(labels == _IGNORED, config.pad_id)


def _first(rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Collates a row that is a whole batch already."""
    return rows[0]


def collator(model: Any, config: ModelConfig) -> DataCollatorForSeq2Seq:
    """Pads; its tokenizer is asked for the id of padding and nothing else."""
    names = {"<pad>": config.pad_id, "<s>": config.bos_id, "</s>": config.eos_id}
    words = WordTokenizer(WordLevel(names, unk_token="<pad>"))
    build: Any = PreTrainedTokenizerFast
    tokenizer = build(tokenizer_object=words, pad_token="<pad>", eos_token="</s>")
    return DataCollatorForSeq2Seq(tokenizer, model=model, label_pad_token_id=_IGNORED)


class _MeteredTrainer(Seq2SeqTrainer):  # type: ignore[misc, unused-ignore]
    def __init__(self, config: ModelConfig, meter: Meter, **options: Any) -> None:
        super().__init__(**options)
        self._shape = config
        self._meter = meter
        self.last_inputs: dict[str, Tensor] = {}

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        """Its batches of alike lengths in random order, as ours come.

        In its own order an epoch starts with the longest, and a few steps would not stand for the rest.
        """
        sampler: Any = super()._get_train_sampler(train_dataset)
        if self.args.train_sampling_strategy == "sequential":
            return sampler
        order, size = list(sampler), self.args.train_batch_size
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        return [index for number in torch.randperm(len(batches)).tolist() for index in batches[number]]

    def training_step(self, model: Any, inputs: dict[str, Any], *rest: Any, **options: Any) -> Tensor:
        self.last_inputs = dict(inputs)
        self._meter.batch(as_batch(inputs, self._shape))
        loss: Tensor = super().training_step(model, inputs, *rest, **options)
        self._meter.losses.append(loss)
        return loss


class _StepEnds(TrainerCallback):  # type: ignore[misc, unused-ignore]
    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def on_step_end(self, *event: Any, **context: Any) -> None:
        self._meter.step_done()
