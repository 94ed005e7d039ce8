"""Text to the ids that a model reads, and ids to text: pieces, language tags, and a detokenizer for streams.

Knows nothing of tensors, so the HTTP process can use it without loading torch.
"""

import codecs
import copy
import json
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict

from model.case_marks import CASE_MARKS, UPPER_BEGIN, UPPER_END, VISIBLE, CaseRestorer, has_marks
from model.subwords import JsonPieces, Pieces, SentencePieces

_PAD, _BOS, _EOS = "<pad>", "<s>", "</s>"
_SIGNS: Final = frozenset({"No", "So"})
"""Categories of characters that are not other ones in disguise: ①, ☎."""

TRAINED_FILE: Final = "tokenizer.model"
TOKENIZER_FILES: Final = (
    TRAINED_FILE,
    "source.model",
    "target.model",
    "vocabulary.json",
    "source_vocabulary.json",
    "target_vocabulary.json",
    "tokenizer.json",
)
"""Tokenizer files: SentencePiece models, optional vocabularies, or one Hugging Face file."""


class Prompt(BaseModel):
    """The special pieces around a text, some of which name its languages to the model.

    `{source}` and `{target}` stand for the pieces of the languages. What the vocabulary does not have is left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    languages: dict[str, str] = {}
    """The piece of each language by its code, where it is not `language_tag(code)`."""
    text_prefix: str = ""
    """Words before the text, as T5 has them; with `{source}` and `{target}`, too."""
    source_prefix: tuple[str, ...] = ("{target}",)
    source_suffix: tuple[str, ...] = (_EOS,)
    target_prefix: tuple[str, ...] = ()
    """The pieces that every translation begins with."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The pieces of the languages, if the model knows languages by pieces."""
        pieces = (*self.source_prefix, *self.source_suffix, *self.target_prefix)
        return tuple(self.languages.values()) if any("{" in piece for piece in pieces) else ()

    @property
    def ignores_source(self) -> bool:
        """True if nothing in the prompt depends on the language of the text."""
        templates = (self.text_prefix, *self.source_prefix, *self.source_suffix, *self.target_prefix)
        return not any("{source}" in template for template in templates)


def language_tag(language: str) -> str:
    """Return the piece that asks a model of several target languages for one of them (Johnson et al. 2017)."""
    return f"<2{language}>"


class Tokenizer:
    """A checkpoint's tokenizer files and prompt format."""

    def __init__(self, files: Mapping[str, bytes], prompt: Prompt | None = None) -> None:
        """Raises `ValueError` or `RuntimeError` for files that are broken, or not a set."""
        self.files = {name: files[name] for name in TOKENIZER_FILES if name in files}
        self.prompt = prompt or Prompt()
        self._source, self._target = _sides(self.files, self.prompt.tags)
        self.marks_case = self._target.marks_case
        """True where upper case is written as marks (model/case_marks.py), so that case needs no other care."""
        marks = {mark: self.piece_id(mark) for mark in CASE_MARKS} if self.marks_case else {}
        self._case_marks = {token_id: VISIBLE[mark] for mark, token_id in marks.items()}
        self._whole_texts: dict[int, str | None] = {}
        self.plain_texts: dict[int, str] = {}
        """The results of `whole_text` so far that have no case marks."""
        self._spelled: set[str] = set()
        self._unspelled: set[str] = set()
        self._capitals = [marks[mark] for mark in (UPPER_BEGIN, UPPER_END) if mark in marks]

    @classmethod
    def from_sentencepiece(cls, model: bytes) -> Self:
        """Build a tokenizer whose two sides share a model, which numbers its pieces itself."""
        return cls({TRAINED_FILE: model})

    @classmethod
    def from_directory(cls, directory: Path, prompt: Prompt | None = None) -> Self:
        """Raises as the constructor, and `OSError`."""
        found = (directory / name for name in TOKENIZER_FILES)
        return cls({path.name: path.read_bytes() for path in found if path.exists()}, prompt)

    def __len__(self) -> int:
        return len(self._target)

    @property
    def rows(self) -> tuple[int, int]:
        """The number of source and target ids that a model has to know, for any text in any of its languages."""
        around = (*self.prompt.source_prefix, *self.prompt.source_suffix)
        return self._rows(self._source, around), self._rows(self._target, self.prompt.target_prefix)

    def _rows(self, side: Pieces, names: Sequence[str]) -> int:
        codes = (None, *self.prompt.languages)
        return 1 + max([side.highest, *(i for code in codes for i in self._special(side, names, code, code))])

    @property
    def pad_id(self) -> int:
        return self.piece_id(_PAD)

    @property
    def bos_id(self) -> int:
        return self.piece_id(_BOS)

    @property
    def eos_id(self) -> int:
        return self.piece_id(_EOS)

    def piece_id(self, piece: str) -> int:
        """Return the id of a special piece on the target side; raises `ValueError` if there is none."""
        found = self._target.find(piece)
        if found is None:
            raise ValueError(f"the tokenizer has no {piece}")
        return found

    def encode(
        self, text: str, target: str | None = None, source: str | None = None, sampling: float | None = None
    ) -> list[int]:
        """Ids of a source text, from a language into another, with all that goes around it.

        With `sampling`, one of its many segmentations is drawn (Kudo 2018, alpha): for training.
        """
        [ids] = self.encode_batch([text], target, source, sampling)
        return ids

    def encode_batch(
        self,
        texts: list[str],
        target: str | None = None,
        source: str | None = None,
        sampling: float | None = None,
    ) -> list[list[int]]:
        """Encode several texts; see `encode`."""
        before = self._text_prefix(target, source)
        batch = self._source.encode([before + text for text in texts] if before else texts, sampling)
        prefix = self._special(self._source, self.prompt.source_prefix, target, source)
        suffix = self._special(self._source, self.prompt.source_suffix, target, source)
        return [[*prefix, *ids, *suffix] for ids in batch]

    def encode_targets(
        self, texts: list[str], target: str | None = None, source: str | None = None, sampling: float | None = None
    ) -> list[list[int]]:
        """Ids of whole translations, as a decoder learns to write them: what they begin with, and their end."""
        prefix = self._special(self._target, self.prompt.target_prefix, target, source)
        return [[*prefix, *ids, self.eos_id] for ids in self._target.encode(texts, sampling)]

    def encode_target(self, text: str) -> list[int]:
        """Ids of text that a translation begins with, or contains: what follows it keeps its own case."""
        [ids] = self._target.encode([text])
        if self.marks_case:
            marks = [token_id for token_id in ids if token_id in self._capitals]
            if marks[-1:] == self._capitals[:1]:
                ids.append(self._capitals[1])
        return ids

    def encode_term(self, text: str) -> list[int]:
        """Ids of words that are recognised in a translation by their first one: without case marks."""
        return [token_id for token_id in self.encode_target(text) if token_id not in self._case_marks]

    def target_prefix(self, target: str, source: str) -> list[int]:
        """Ids that the decoder gets before it writes."""
        return self._special(self._target, self.prompt.target_prefix, target, source)

    def spans(self, text: str, target: str | None = None, source: str | None = None) -> list[tuple[int, int] | None]:
        """Return the characters of `text`, from and up to, that each of its ids (`encode`) stands for.

        Without white space; None for what stands for no character: tags, eos, a space of its own. The bytes of a
        character all stand for it.
        """
        before = len(self._text_prefix(target, source))
        found = self._source.spans(self._text_prefix(target, source) + text)
        spans: list[tuple[int, int] | None] = []
        following = len(text)
        for start, end in reversed([(max(start - before, 0), max(end - before, 0)) for start, end in found]):
            following = end if end > start else following
            part = text[start:following]
            stripped = part.strip()
            begin = start + part.find(stripped)
            spans.append((begin, begin + len(stripped)) if stripped else None)
        prefix = self._special(self._source, self.prompt.source_prefix, target, source)
        suffix = self._special(self._source, self.prompt.source_suffix, target, source)
        return [*(None for _ in prefix), *reversed(spans), *(None for _ in suffix)]

    def unspelled(self, text: str) -> set[str]:
        """Return the characters of `text` that the source side has no piece for, but their bytes or `<unk>`.

        A sign that is read as another character (① as 1) is one of them, too; a capital whose small letter has a piece
        is not.
        """
        characters = set(text)
        for character in characters - self._spelled - self._unspelled:
            is_spelled = any(map(self._spells, {character, character.lower()}))
            (self._spelled if is_spelled else self._unspelled).add(character)
        return characters & self._unspelled

    def _spells(self, character: str) -> bool:
        [ids] = self._source.encode([character])
        if any(self._source.is_fallback(token_id) for token_id in ids):
            return False
        written = b"".join(map(self._source.bytes_of, ids)).decode(errors="replace")
        return unicodedata.category(character) not in _SIGNS or character in written

    def has_tag(self, language: str) -> bool:
        """Return True if there is a special piece for `language`."""
        return bool(self._special(self._source, ("{target}",), language, None))

    def decode(self, ids: Sequence[int]) -> str:
        detokenizer = Detokenizer(self)
        return "".join(map(detokenizer.push, ids)) + detokenizer.flush()

    def piece_bytes(self, token_id: int) -> bytes:
        """Return the UTF-8 of a token of a translation by itself (`Pieces.bytes_of`); b"" for a case mark."""
        return b"" if token_id in self._case_marks else self._target.bytes_of(token_id)

    def label(self, token_id: int) -> str:
        """Return a token's own text for people, with a sign for a case mark (`VISIBLE`); "" for `</s>` alone."""
        return self._case_marks.get(token_id) or self.piece_bytes(token_id).decode(errors="replace")

    def marked_bytes(self, token_id: int) -> bytes:
        """Return the UTF-8 of a token, like `piece_bytes`, but with case marks."""
        return self._target.bytes_of(token_id)

    def whole_text(self, token_id: int) -> str | None:
        """`marked_bytes` as text; None for a part of a character."""
        if token_id not in self._whole_texts:
            try:
                text = self._whole_texts[token_id] = self.marked_bytes(token_id).decode()
            except UnicodeDecodeError:
                self._whole_texts[token_id] = None
            else:
                if not (self.marks_case and has_marks(text)):
                    self.plain_texts[token_id] = text
        return self._whole_texts[token_id]

    def _text_prefix(self, target: str | None, source: str | None) -> str:
        return self._named(self.prompt.text_prefix, target, source)

    def _special(self, side: Pieces, names: Sequence[str], target: str | None, source: str | None) -> list[int]:
        found = (side.find(self._named(name, target, source)) for name in names)
        return [token for token in found if token is not None]

    def _named(self, template: str, target: str | None, source: str | None) -> str:
        for place, language in (("{source}", source), ("{target}", target)):
            if place in template:
                piece = "" if language is None else self.prompt.languages.get(language, language_tag(language))
                template = template.replace(place, piece)
        return template


def _sides(files: Mapping[str, bytes], tags: Collection[str]) -> tuple[Pieces, Pieces]:
    if "tokenizer.json" in files:
        shared = JsonPieces(files["tokenizer.json"], tags)
        return shared, shared
    models = [files[name] for name in ("source.model", "target.model") if name in files]
    if len(models) != 2:
        if TRAINED_FILE not in files:
            raise ValueError(f"there is no {TRAINED_FILE}")
        models = [files[TRAINED_FILE]] * 2
    names = ["source_vocabulary.json", "target_vocabulary.json"]
    if "vocabulary.json" in files:
        names = ["vocabulary.json"] * 2
    vocabularies = [_vocabulary(files, name) for name in names]
    sides = [SentencePieces(model, words, tags) for model, words in zip(models, vocabularies, strict=True)]
    marks_case = all(side.find(mark) is not None for side in sides for mark in CASE_MARKS)
    for side in sides:
        side.marks_case = marks_case
    return sides[0], sides[1]


def _vocabulary(files: Mapping[str, bytes], name: str) -> list[str] | None:
    if name not in files:
        return None
    vocabulary = json.loads(files[name])
    if not isinstance(vocabulary, list) or not all(isinstance(piece, str) for piece in vocabulary):
        raise ValueError(f"{name} is not a list of pieces")
    return vocabulary


class Detokenizer:
    """Turns ids into text one at a time; text already returned never changes.

    Bytes of an unfinished character are held back until the character is whole, and left out where it never is: a
    small model sometimes writes half an emoji. A case mark is held back until its word comes. The space that
    SentencePiece puts before the first word is dropped.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
        self._case = CaseRestorer() if tokenizer.marks_case else None
        self._at_start = True
        self._holds_bytes = False
        """True after a part of a character."""

    def copy(self) -> "Detokenizer":
        """Return a detokenizer that goes on from here by itself."""
        other = copy.copy(self)
        other._decoder = copy.copy(self._decoder)
        other._case = copy.copy(self._case)
        return other

    def push(self, token_id: int) -> str:
        """Return the text that this token completes; often a word, sometimes nothing."""
        return self._written(self._decoded(token_id))

    def push_all(self, token_ids: Iterable[int]) -> list[str]:
        """Return the texts that these tokens complete: as `push` with one after the other."""
        plain, texts, passes_on = self._tokenizer.plain_texts, [], self._passes_on
        for token_id in token_ids:
            text = plain.get(token_id) if passes_on else None
            if text is None:
                text = self.push(token_id)
                passes_on = self._passes_on
            texts.append(text)
        return texts

    def _decoded(self, token_id: int) -> str:
        text = None if self._holds_bytes else self._tokenizer.whole_text(token_id)
        if text is None:
            text = self._decoder.decode(self._tokenizer.marked_bytes(token_id))
            self._holds_bytes = bool(self._decoder.getstate()[0])
        return text

    @property
    def holds_text(self) -> bool:
        """True after a part of a character."""
        return self._holds_bytes

    @property
    def _passes_on(self) -> bool:
        """True if a text without marks is returned as it is."""
        return not (self._at_start or self._holds_bytes or (self._case is not None and self._case.changes_text))

    def flush(self) -> str:
        """Return the rest of the text at the end; nothing of an unfinished character."""
        return self._written(self._decoder.decode(b"", final=True))

    def _written(self, text: str) -> str:
        if self._case is not None:
            text = self._case.push(text)
        if self._at_start and text:
            self._at_start = False
            return text.removeprefix(" ")
        return text
