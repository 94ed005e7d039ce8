"""Text to pieces of words and back, with the ids that a model knows them by: SentencePiece, or a `tokenizer.json`.

Knows nothing of languages, special tokens or tensors.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, Final

import sentencepiece
import tokenizers

from model.case_marks import mark_case, mark_text

_SPACE: Final = "\u2581"  # SentencePiece's visible space
_UNKNOWN: Final = "<unk>"
_BYTE: Final = re.compile(r"<0x([0-9A-F]{2})>")
_SPECIAL: Final = re.compile(r"<(?!0x)[^<>]+>|>>[^<>]+<<|__[a-z_]+__")
"""The look of pieces that stand for no text: ends of sentences, padding, languages."""
_REPLACEMENT: Final = "\ufffd".encode()

Span = tuple[int, int]


class Pieces(ABC):
    """The vocabulary of the source side or of the target side."""

    marks_case = False
    """True where texts get case marks (model/case_marks.py), each of which has a piece."""
    _bytes: list[bytes]
    _fallbacks: set[int]

    def __len__(self) -> int:
        return len(self._bytes)

    @property
    @abstractmethod
    def highest(self) -> int:
        """The highest id that a text may get."""

    @abstractmethod
    def encode(self, texts: Sequence[str], sampling: float | None = None) -> list[list[int]]:
        """Ids of each text; what looks like a special token is text like any other.

        With `sampling`, a segmentation is drawn (Kudo 2018, alpha). Tokenizers that cannot sample ignore `sampling`.
        """

    @abstractmethod
    def spans(self, text: str) -> list[Span]:
        """Return the characters that each id of a text stands for: from, up to; with white space and gaps."""

    @abstractmethod
    def find(self, piece: str) -> int | None:
        """Return the id of a special piece."""

    def bytes_of(self, token_id: int) -> bytes:
        """Return the UTF-8 of a token, case marks included; b"" for special tokens and for ids without a piece.

        A byte token is part of a character.
        """
        return self._bytes[token_id] if token_id < len(self._bytes) else b""

    def is_fallback(self, token_id: int) -> bool:
        """Return True for the unknown token, and for the byte tokens of characters without a piece."""
        return token_id in self._fallbacks


def seed_sampling(seed: int) -> None:
    """Make the segmentations that this process samples from here on a function of `seed`."""
    sentencepiece.set_random_generator_seed(seed)


class SentencePieces(Pieces):
    """A SentencePiece model, its pieces numbered by itself or by a `vocabulary`, which may have others, too.

    `tags` are pieces that no text has, even if the model treats them as text.
    """

    def __init__(self, model: bytes, vocabulary: Sequence[str] | None = None, tags: Collection[str] = ()) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        if not self._processor.get_piece_size():
            raise ValueError("a SentencePiece model without pieces")  # an empty file is one
        self._is_own = vocabulary is None
        own = map(self._processor.id_to_piece, range(self._processor.get_piece_size()))
        pieces = list(own if vocabulary is None else vocabulary)
        self._ids = {piece: i for i, piece in reversed(list(enumerate(pieces)))}
        self._unknown = self._ids.get(_UNKNOWN, self._processor.unk_id())
        self._bytes = [self._bytes_of(piece) for piece in pieces]
        self._bytes[self._unknown] = _REPLACEMENT
        self._fallbacks = {self._unknown, *(token for piece, token in self._ids.items() if _BYTE.fullmatch(piece))}
        self._tags = {self._ids[tag] for tag in tags if tag in self._ids}
        for token in self._tags:
            self._bytes[token] = b""

    @property
    def highest(self) -> int:
        own = map(self._processor.id_to_piece, range(self._processor.get_piece_size()))
        return max([self._unknown, *(token for token in map(self._id, own) if self._bytes[token])])

    def encode(self, texts: Sequence[str], sampling: float | None = None) -> list[list[int]]:
        # One by one: for a list SentencePiece starts threads, which take longer than sentences do.
        options: dict[str, Any] = {"enable_sampling": True, "alpha": sampling, "nbest_size": -1} if sampling else {}
        texts = [mark_text(text) for text in texts] if self.marks_case else texts
        if self._is_own:
            batch: list[list[int]] = [self._processor.encode(text, **options) for text in texts]
        else:
            batch = [list(map(self._id, self._processor.encode(text, out_type=str, **options))) for text in texts]
        if not self._tags:
            return batch
        return [[self._unknown if token in self._tags else token for token in ids] for ids in batch]

    def spans(self, text: str) -> list[Span]:
        if not self.marks_case:
            return self._spans(text)
        marked = mark_case(text)
        offsets = [*marked.offsets, len(text)]
        # A mark comes from where the character after it does, so it has no characters of its own.
        return [(offsets[start], offsets[end]) for start, end in self._spans(marked.text)]

    def _spans(self, text: str) -> list[Span]:
        spans: list[Span] = self._processor.encode(text, return_type="offset_mapping")["offsets"]
        return spans

    def find(self, piece: str) -> int | None:
        return self._ids.get(piece)

    def _id(self, piece: str) -> int:
        return self._ids.get(piece, self._unknown)

    def _bytes_of(self, piece: str) -> bytes:
        token = self._processor.piece_to_id(piece)
        if self._processor.is_unknown(token):
            # Not the model's own: of the other side, or special.
            return b"" if _SPECIAL.fullmatch(piece) else _of_metaspace(piece)
        if self._processor.is_control(token) or self._processor.is_unused(token):
            return b""
        return _of_metaspace(piece)


class JsonPieces(Pieces):
    """Hugging Face's `tokenizer.json`: SentencePiece's pieces or bytes of BPE. Raises `ValueError` for other kinds.

    `tags` are pieces that no text has, as those that the file calls special.
    """

    def __init__(self, content: bytes, tags: Collection[str] = ()) -> None:
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(content.decode())
        except Exception as error:  # the library knows no narrower one
            raise ValueError(f"tokenizer.json: {error}") from None
        self._tokenizer.encode_special_tokens = True
        description = json.loads(content)
        special = {each["id"] for each in description.get("added_tokens") or () if each["special"]}
        special |= {self._tokenizer.token_to_id(tag) for tag in tags}
        decoder = json.dumps(description.get("decoder"), ensure_ascii=False)
        if "ByteLevel" in decoder:
            to_bytes = _of_byte_level
        elif "Metaspace" in decoder or _SPACE in decoder:
            to_bytes = _of_metaspace
        else:
            raise ValueError(f"tokenizer.json: no rule is known for the decoder {decoder}")
        size = self._tokenizer.get_vocab_size()
        pieces = [self._tokenizer.id_to_token(i) for i in range(size)]
        self._unknown = self._unknown_id(description["model"])
        self._names = [piece or "" for piece in pieces]
        # Byte-level BPE writes rare characters in bytes as a matter of course, and models learn them.
        self._fallbacks = {i for i, piece in enumerate(self._names) if _BYTE.fullmatch(piece)}
        if to_bytes is _of_metaspace:
            self._fallbacks.add(self._unknown)
        self._bytes = [b"" if i in special or piece is None else to_bytes(piece) for i, piece in enumerate(pieces)]

    @property
    def highest(self) -> int:
        return max([self._unknown, *(token for token, each in enumerate(self._bytes) if each)])

    def encode(self, texts: Sequence[str], sampling: float | None = None) -> list[list[int]]:
        # One by one, as above.
        return [self._plain(self._tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]

    def spans(self, text: str) -> list[Span]:
        return self._tokenizer.encode(text, add_special_tokens=False).offsets

    def _plain(self, ids: list[int]) -> list[int]:
        """Replace special tokens: "</s>" in a text would end it, "fra_Latn" would choose a language."""
        return [token if self._bytes[token] else self._unknown for token in ids]

    def _unknown_id(self, model: dict[str, Any]) -> int:
        """Return the id of the unknown piece, which Unigram names by id and BPE by name; byte-level BPE needs none."""
        found = model.get("unk_id")
        if found is None:
            found = self._tokenizer.token_to_id(model.get("unk_token") or _UNKNOWN)
        return 0 if found is None else int(found)

    def name(self, token_id: int) -> str:
        """Return the piece as it is written in the file."""
        return self._names[token_id]

    def find(self, piece: str) -> int | None:
        found: int | None = self._tokenizer.token_to_id(piece)
        return found


def _of_metaspace(piece: str) -> bytes:
    if byte := _BYTE.fullmatch(piece):
        return bytes([int(byte[1], 16)])
    return piece.replace(_SPACE, " ").encode()


def _byte_letters() -> dict[str, int]:
    """Printable Latin-1 letters stand for themselves, those from U+0100 on for the other bytes, in ascending order."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTE_LETTERS: Final = _byte_letters()


def _of_byte_level(piece: str) -> bytes:
    return bytes(_BYTE_LETTERS[letter] for letter in piece)
