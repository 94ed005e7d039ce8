"""BLEU and chrF by sacrebleu, so that they compare with published scores. Knows nothing of models."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Literal, NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from model.training.report import MissingExtraError

Tokenize = Literal["13a", "intl", "moses"]


class Score(NamedTuple):
    """A metric's value, the line that sacrebleu prints for it, and the signature that says how it was computed."""

    value: float
    line: str
    signature: str

    def __str__(self) -> str:
        return f"{self.line}  {self.signature}"


class BleuTokenizer(NamedTuple):
    """`name` of one of sacrebleu's tokenizers, what is done before it, and its mark in the signature."""

    name: str
    before: Callable[[str], str] = lambda text: text
    signature: str = ""


def bleu_tokenizer(tokenize: Tokenize, language: str) -> BleuTokenizer:
    if tokenize != "moses":
        return BleuTokenizer(tokenize)
    try:
        from sacremoses import MosesTokenizer
    except ImportError:
        raise MissingExtraError("tokenize=moses needs sacremoses: pip install 'dragoman[train]'") from None
    moses = MosesTokenizer(language)
    return BleuTokenizer(
        "none",
        lambda text: " ".join(moses.tokenize(text, escape=False)),
        f"|pretok:sacremoses-{language}-{version('sacremoses')}",
    )


def score(hypotheses: list[str], references: list[str], tokenize: BleuTokenizer, lowercase: bool) -> list[Score]:
    """BLEU, then chrF, which takes the text as it is: it does not count spaces."""
    # Moses' rules look at the case of words too, so they get what is compared in the end.
    prepare = (lambda text: tokenize.before(text.lower())) if lowercase else tokenize.before
    # force: no warning that the text is tokenised, where we have tokenised it.
    bleu = BLEU(lowercase=lowercase, tokenize=tokenize.name, force=tokenize.name == "none")
    chrf = CHRF(lowercase=lowercase)
    bleu_score = bleu.corpus_score([prepare(text) for text in hypotheses], [[prepare(text) for text in references]])
    chrf_score = chrf.corpus_score(hypotheses, [references])
    return [
        Score(bleu_score.score, str(bleu_score), f"{bleu.get_signature()}{tokenize.signature}"),
        Score(chrf_score.score, str(chrf_score), str(chrf.get_signature())),
    ]
