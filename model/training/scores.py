"""BLEU and chrF by sacrebleu, so that scores compare with published ones. Needs the packages of `dragoman[train]`."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Literal, NamedTuple

from model.training.report import MissingExtraError

Tokenize = Literal["13a", "intl", "moses"]


class Score(NamedTuple):
    """A metric's value, the line that sacrebleu prints for it, and the signature that says how it was computed."""

    value: float
    line: str
    signature: str

    def __str__(self) -> str:
        return f"{self.line}  {self.signature}"


class Scorer:
    """Scores translations into one language. `tokenize` is for BLEU; with `lowercase`, case does not count."""

    def __init__(self, tokenize: Tokenize, language: str, *, lowercase: bool) -> None:
        """Load the libraries that the scores need. Raises `MissingExtraError`."""
        try:
            from sacrebleu.metrics.bleu import BLEU
            from sacrebleu.metrics.chrf import CHRF
        except ImportError:
            raise MissingExtraError("scores need sacrebleu: pip install '.[train]'") from None
        self._lowercase = lowercase
        self._moses = _Moses(language) if tokenize == "moses" else None
        # force: no warning that the text is tokenised, where we have tokenised it.
        name = "none" if self._moses else tokenize
        self._bleu = BLEU(lowercase=lowercase, tokenize=name, force=self._moses is not None)
        self._chrf = CHRF(lowercase=lowercase)

    def score(self, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[Score, Score]:
        """Return BLEU and chrF, which takes the text as it is: it does not count spaces."""
        prepared = [self._tokens(text) for text in hypotheses], [[self._tokens(text) for text in references]]
        bleu = self._bleu.corpus_score(*prepared)
        chrf = self._chrf.corpus_score(hypotheses, [references])
        mark = self._moses.signature if self._moses else ""
        return (
            Score(bleu.score, str(bleu), f"{self._bleu.get_signature()}{mark}"),
            Score(chrf.score, str(chrf), str(self._chrf.get_signature())),
        )

    def _tokens(self, text: str) -> str:
        if self._moses is None:
            return text
        # Moses' rules look at the case of words too, so they get what is compared in the end.
        return self._moses.tokens(text.lower() if self._lowercase else text)


class _Moses:
    """Moses' tokenisation of one language, and its mark in a score's signature."""

    def __init__(self, language: str) -> None:
        try:
            from sacremoses import MosesTokenizer
        except ImportError:
            raise MissingExtraError("tokenize=moses needs sacremoses: pip install '.[train]'") from None
        self._tokenizer = MosesTokenizer(language)
        self.signature = f"|pretok:sacremoses-{language}-{version('sacremoses')}"

    def tokens(self, text: str) -> str:
        return " ".join(self._tokenizer.tokenize(text, escape=False))
