"""Files are translated in order and scored by the convention that was asked for."""

import sys
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch import nn

from model.checkpoint import load_model, save_checkpoint
from model.checkpoint_config import CheckpointConfig, Direction, LanguageHint
from model.config import ModelConfig
from model.decoding import beam_decode, greedy_decode
from model.quantized_linear import Int8Linear, PrepackedLinear
from model.tokenizer import Tokenizer
from model.training import evaluate as module
from model.training.evaluate import (
    DecodingOptions,
    EvaluationOptions,
    OfflineTranslator,
    Translation,
    evaluate,
    load_translator,
    translate_all,
)
from model.training.report import MissingExtraError
from tests.conftest import WORDS, random_model

LENGTH = 40
TEXTS = [f"{'the ' * (i % 5)}{first} {second}" for i, (first, second) in enumerate(zip(WORDS, WORDS[7:], strict=False))]
REFERENCES = ["L'été, M. Dupont mange.", "Le chat dort-il ?", 'Voilà 3,5 % de "plus" !']


def _save(directory: Path, tokenizer: Tokenizer, *targets: str) -> Path:
    config = ModelConfig(
        vocab_size=320,
        d_model=32,
        ffn_dim=64,
        num_heads=2,
        encoder_layers=1,
        decoder_layers=1,
        max_positions=LENGTH,
    )
    directions = tuple(Direction(source="en", target=target) for target in targets)
    manifest = CheckpointConfig(directions=directions, model=config)
    save_checkpoint(directory, manifest, random_model(config).state_dict(), tokenizer, torch.float32)
    return directory


@pytest.fixture
def checkpoint(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    return _save(tmp_path / "checkpoint", tokenizer, "fr")


@pytest.fixture
def test_set(tmp_path: Path) -> Path:
    path = tmp_path / "test.tsv"
    lines = [f"{text}\t{reference}\n" for text, reference in zip(TEXTS, cycle(REFERENCES), strict=False)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("options", [DecodingOptions(1, 1.0, 3), DecodingOptions(3, 0.5, 3)])
def test_translations_come_in_order(
    checkpoint: Path, options: DecodingOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 8)
    done: list[int] = []
    found = list(translate_all(load_translator(checkpoint), TEXTS, options, done.append))
    assert done[:4] == [3, 3, 2, 3]
    assert sum(done) == len(TEXTS)
    model, tokenizer = load_model(checkpoint), load_translator(checkpoint).tokenizer
    for text, translation in zip(TEXTS, found, strict=True):
        source = tokenizer.encode(text)
        if options.beam_size == 1:
            [ids] = greedy_decode(model, [source], LENGTH)
        else:
            [[(ids, _)]] = beam_decode(model, [source], LENGTH, options.beam_size, options.length_penalty)
        assert translation == Translation(tokenizer.decode(ids), len(ids), ids[-1] == tokenizer.eos_id)
    assert len({translation.text for translation in found}) > len(TEXTS) // 3, "or another order would not show"


def test_a_stream_of_texts_is_read_a_chunk_at_a_time(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 5)
    endless = translate_all(load_translator(checkpoint), cycle(TEXTS[:3]), DecodingOptions())
    first = list(islice(endless, 12))
    assert first == [*first[:3]] * 4


def test_too_long_sources_are_named_by_line(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 3)
    path = tmp_path / "long.tsv"
    long = "zq" * LENGTH
    path.write_text("".join(f"{text}\tx\n" for text in ["the", "the", "the", long, "the", long]), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"long\.tsv: lines \[4, 6\] have more than {LENGTH} tokens"):
        evaluate(checkpoint, path)


def test_scores_are_those_of_sacrebleu(checkpoint: Path, test_set: Path) -> None:
    result = evaluate(checkpoint, test_set, EvaluationOptions(DecodingOptions(beam_size=2), limit=7))
    model = load_model(checkpoint)
    tokenizer = load_translator(checkpoint).tokenizer
    beams = beam_decode(model, [tokenizer.encode(text) for text in TEXTS[:7]], LENGTH, 2)
    assert result.hypotheses == [tokenizer.decode(best.ids) for [best] in beams]
    assert result.tokens == sum(len(best.ids) for [best] in beams)
    assert result.tokens_per_second == result.tokens / result.seconds
    references = [list(islice(cycle(REFERENCES), 7))]
    for score, metric in ((result.bleu, BLEU()), (result.chrf, CHRF())):
        expected = metric.corpus_score(result.hypotheses, references)
        assert score.value == expected.score
        assert str(score) == f"{expected}  {metric.get_signature()}"


def test_precision_says_which_linear_layers(checkpoint: Path) -> None:
    original = load_model(checkpoint)
    for precision, kind in (("float32", PrepackedLinear), ("int8", Int8Linear)):
        model = load_translator(checkpoint, precision).model  # type: ignore[arg-type]
        assert isinstance(model.projection, kind if kind is Int8Linear or kind.is_available() else nn.Linear)
        assert sum(isinstance(layer, kind) for layer in model.modules()) == 1 + 6 + 10
        assert torch.equal(model.embedding.weight, original.embedding.weight)


def test_lower_cased_sources(checkpoint: Path, test_set: Path, tmp_path: Path) -> None:
    titled = tmp_path / "titled.tsv"
    lines = [f"{source.title()}\t{target}\n" for source, target in (line.split("\t") for line in _lines(test_set))]
    titled.write_text("".join(lines), encoding="utf-8")
    expected = evaluate(checkpoint, test_set).hypotheses
    assert evaluate(checkpoint, titled, EvaluationOptions(lowercase_source=True)).hypotheses == expected
    assert evaluate(checkpoint, titled).hypotheses != expected


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def translated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The model's translation of any source in the next test."""
    texts: list[str] = []

    def speak(*_: object) -> Iterator[Translation]:
        return (Translation(text, 1) for text in texts)

    monkeypatch.setattr(module, "translate_all", speak)
    return texts


def test_case_counts_by_default(checkpoint: Path, test_set: Path, translated: list[str]) -> None:
    translated += [text.upper() for text in REFERENCES]
    cased = evaluate(checkpoint, test_set, EvaluationOptions(limit=3))
    assert cased.bleu.value < 50
    assert cased.chrf.value < 50
    for tokenize in ("13a", "intl", "moses"):
        options = EvaluationOptions(limit=3, lowercase=True, tokenize=tokenize)
        lower = evaluate(checkpoint, test_set, options)
        assert lower.bleu.value == pytest.approx(100)
        assert lower.chrf.value == pytest.approx(100)
        assert "case:lc" in lower.bleu.signature


def test_moses_tokenises_both_sides_by_the_rules_of_the_target(
    checkpoint: Path, test_set: Path, translated: list[str]
) -> None:
    translated += ["D'hier, M. Durand mange.", "Un chat dort-il ?", "Voilà 3,5 % de plus !"]
    found = evaluate(checkpoint, test_set, EvaluationOptions(limit=3, tokenize="moses")).bleu
    by_hand = BLEU(tokenize="none", force=True).corpus_score(
        ["D' hier , M. Durand mange .", "Un chat dort-il ?", "Voilà 3,5 % de plus !"],
        [["L' été , M. Dupont mange .", "Le chat dort-il ?", 'Voilà 3,5 % de " plus " !']],
    )
    assert found.value == pytest.approx(by_hand.score)
    assert "|tok:none|" in found.signature
    assert "|pretok:sacremoses-fr-" in found.signature
    assert evaluate(checkpoint, test_set, EvaluationOptions(limit=3)).bleu.value != pytest.approx(found.value)


def test_scores_without_sacrebleu(checkpoint: Path, test_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(MissingExtraError, match=r"^scores need sacrebleu: pip install '\.\[train\]'$"):
        evaluate(checkpoint, test_set)


def test_the_target_language(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    both = _save(tmp_path / "both", tokenizer, "fr", "de")
    for wanted, hint in ((None, "; say which"), ("es", "$")):
        with pytest.raises(ValueError, match=rf"languages \?-{wanted or '.'}: the model translates en-fr, en-de{hint}"):
            load_translator(both, hint=LanguageHint(target=wanted))
    asked: list[object] = []
    monkeypatch.setattr(Tokenizer, "encode_batch", lambda _, texts, *languages: asked.append((texts, languages)))
    OfflineTranslator.source_ids(load_translator(both, hint=LanguageHint(target="de")), ["the"])
    assert asked == [(["the"], ("de", "en"))]
