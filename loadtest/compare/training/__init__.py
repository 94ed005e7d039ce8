"""Training throughput of `dragoman train` and of `transformers`' Seq2SeqTrainer, on equal work.

Same model shape, pairs, optimiser and dropout; what counts is source and target tokens per second,
padding left out. Two modes: in `steps` both get identical padded batches, which is the cost of a step;
in `epoch` each makes its own batches as it would for a user, of equally many tokens on average.

Every round gives each side a process's turn: new weights, a few steps that are not counted, then the
steps that are. The sides take turns, the first of a round being the last of the next.
"""
