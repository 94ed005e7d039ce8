"""Which layer and head of the decoder points to the words that it translates: `python -m loadtest.alignment --help`.

Words that are spelled alike in a sentence and its translation (names, numbers, cognates) need no annotation: a token
of such a word comes from the same word.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from loadtest.local_server import read_sentences
from model.attention import attention_weights, look_ahead_mask
from model.cache import KV, NoCache
from model.tokenizer import Detokenizer, Tokenizer
from model.training.evaluate import DecodingOptions, OfflineTranslator, load_translator, translate_all
from service.settings import EMBEDDED_MODEL

_WORD: Final = re.compile(r"\w{3,}")


class Alike(NamedTuple):
    """A token of the translation, and the source's tokens that its word is made of."""

    token: int
    source: frozenset[int]


class _Looked:
    """A layer's memory of the source that keeps what was looked at, `[heads, target, source]`."""

    def __init__(self, memory: KV) -> None:
        self._memory = memory
        self.weights = torch.empty(0)

    def attend(self, query: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
        assert mask is not None
        self.weights = attention_weights(query, self._memory.keys, mask)[0]
        return self._memory.attend(query, mask, dropout)


def main(
    file: Annotated[Path, typer.Argument(help="A sentence a line, or source<TAB>reference; plain or .xz.")],
    checkpoint: Annotated[Path, typer.Option(help="A model's directory.")] = EMBEDDED_MODEL,
    count: Annotated[int, typer.Option(min=1, help="Sentences.")] = 1000,
) -> None:
    """The share of such tokens whose highest weight is in their word: each layer's best head, and mean of heads.

    Greedy translations in float32, their attention by teacher forcing.
    """
    try:
        sentences = read_sentences(file, count)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    translator = load_translator(checkpoint)
    texts = [each.text for each in translate_all(translator, sentences, DecodingOptions())]
    hits: Counter[tuple[int, str]] = Counter()
    tokens = 0
    for sentence, text in track([*zip(sentences, texts, strict=True)], "looking"):
        alike = alike_tokens(translator, sentence, text)
        if not alike:
            continue
        tokens += len(alike)
        for layer, weights in enumerate(_weights(translator, sentence, text)):
            kinds = {f"head {number}": head for number, head in enumerate(weights)} | {"mean": weights.mean(dim=0)}
            for kind, each in kinds.items():
                best = each.argmax(dim=-1).tolist()
                hits[layer, kind] += sum(best[token] in source for token, source in alike)
    if not tokens:
        raise typer.BadParameter(f"no word of {file} is spelled alike in its translation")
    _print(hits, tokens)


def alike_tokens(translator: OfflineTranslator, sentence: str, text: str) -> list[Alike]:
    """Tokens of the translation in words that are once in the sentence and once in the translation."""
    direction, tokenizer = translator.direction, translator.tokenizer
    sources = tokenizer.spans(sentence, direction.target, direction.source)
    targets = [*_target_spans(tokenizer, tokenizer.encode_target(text))]
    ours, theirs = _words(sentence), _words(text)
    found = []
    for word in ours.keys() & theirs.keys():
        inside = frozenset(number for number, span in enumerate(sources) if span and _meet(span, ours[word]))
        found += [Alike(number, inside) for number, span in enumerate(targets) if _meet(span, theirs[word])]
    return found


def _words(text: str) -> dict[str, tuple[int, int]]:
    """Where each word is that comes once, in lower case."""
    times = Counter(match[0].lower() for match in _WORD.finditer(text))
    return {match[0].lower(): match.span() for match in _WORD.finditer(text) if times[match[0].lower()] == 1}


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _target_spans(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    detokenizer = Detokenizer(tokenizer)
    end = 0
    for token_id in ids:
        start, end = end, end + len(detokenizer.push(token_id))
        yield start, end


@torch.inference_mode()
def _weights(translator: OfflineTranslator, sentence: str, text: str) -> list[Tensor]:
    """Of each layer `[heads, target, source]`; a row is of the step that wrote the token."""
    model = translator.model
    source_ids = torch.tensor(translator.source_ids([sentence]))
    prompt = translator.prompt()
    inputs = model.shift_right(torch.tensor([[*prompt, *translator.tokenizer.encode_target(text)]]))
    positions = torch.arange(inputs.shape[1])[None]
    everything = torch.zeros(1, 1, 1, source_ids.shape[1])
    looked = [_Looked(memory) for memory in model.encode(source_ids, everything)]
    model.decode(inputs, positions, look_ahead_mask(positions, inputs.shape[1]), looked, everything, NoCache())
    return [each.weights[:, len(prompt) :] for each in looked]


def _print(hits: Counter[tuple[int, str]], tokens: int) -> None:
    layers = sorted({layer for layer, _ in hits})
    table = Table("decoder layer", "mean of its heads", "its best head")
    for layer in layers:
        heads = {kind: count for (number, kind), count in hits.items() if number == layer and kind != "mean"}
        best = max(heads, key=heads.__getitem__)
        table.add_row(str(layer), f"{hits[layer, 'mean'] / tokens:.1%}", f"{heads[best] / tokens:.1%} ({best})")
    console = Console()
    console.print(table)
    console.print(f"{tokens} tokens")


if __name__ == "__main__":
    typer.run(main)
