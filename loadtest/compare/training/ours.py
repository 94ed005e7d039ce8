"""Our side: the trainer of `dragoman train` in its own loop; without log file, validation and checkpoints."""

import itertools
import os
from pathlib import Path

from loadtest.compare.training.meter import Meter, Trained
from loadtest.compare.training.work import OPTIMISER, WARM_UP, Job, shared_batches, train_config
from model.training.config import Corpus
from model.training.parallel import Group
from model.training.trainer import Trainer


def train_ours(job: Job) -> Trained:
    """One turn, in this process."""
    changes = {"batch_tokens": job.batch_tokens, "precision": job.precision, "max_steps": WARM_UP + job.steps}
    # The pairs are there already, so the corpus is never read.
    config = train_config(job.model, OPTIMISER.model_copy(update=changes), Corpus(path=Path(os.devnull)), job.seed)
    trainer = Trainer(config, job.pairs, job.pairs, Group("cpu"))
    meter = Meter(job.model.pad_id)
    steps = ([batch] for batch in shared_batches(job)) if job.mode == "steps" else trainer.batches()
    for batches in itertools.islice(steps, WARM_UP + job.steps):
        [batch] = batches  # one a step: neither side accumulates
        meter.batch(batch)
        meter.losses.append(trainer.train_step(batches))
        meter.step_done()
    source, target = batch
    return meter.trained(trainer.model, lambda: trainer.model(source[:2], target[:2]))
