"""Text to ids and back: SentencePiece, special ids, and a detokenizer that works a token at a time.

Knows nothing of tensors, so the HTTP process can use it without loading torch.
"""

import codecs
from pathlib import Path
from typing import Self

import sentencepiece

_SPACE = "\u2581"  # SentencePiece's visible space


def language_tag(language: str) -> str:
    """The piece that asks a model of several target languages for one of them (Johnson et al. 2017)."""
    return f"<2{language}>"


class Tokenizer:
    """A SentencePiece model file (`tokenizer.model`) with its pad, bos and eos ids."""

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._pieces = [self._piece(i) for i in range(self._processor.get_piece_size())]

    @classmethod
    def from_file(cls, path: Path) -> Self:
        return cls(path.read_bytes())

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def pad_id(self) -> int:
        return int(self._processor.pad_id())

    @property
    def bos_id(self) -> int:
        return int(self._processor.bos_id())

    @property
    def eos_id(self) -> int:
        return int(self._processor.eos_id())

    def encode(self, text: str, target_language: str | None = None) -> list[int]:
        """Ids of `text`, ended by eos; begun by the tag of `target_language` if the model has tags."""
        ids: list[int] = self._processor.encode(text)
        return [*self._tag(target_language), *ids, self.eos_id]

    def encode_batch(self, texts: list[str], target_language: str | None = None) -> list[list[int]]:
        """As `encode`, in SentencePiece's own threads."""
        batch: list[list[int]] = self._processor.encode(texts)
        tag = self._tag(target_language)
        return [[*tag, *ids, self.eos_id] for ids in batch]

    def spans(self, text: str, target_language: str | None = None) -> list[tuple[int, int] | None]:
        """Which characters of `text`, from and up to, each of its ids (`encode`) stands for.

        Without white space; None for what stands for no character: tags, eos, a space of its own. The bytes of a
        character all stand for it.
        """
        offsets = self._processor.encode(text, return_type="offset_mapping")["offsets"]
        spans: list[tuple[int, int] | None] = []
        following = len(text)
        for start, end in reversed(offsets):
            following = end if end > start else following
            part = text[start:following]
            stripped = part.strip()
            begin = start + part.find(stripped)
            spans.append((begin, begin + len(stripped)) if stripped else None)
        return [*(None for _ in self._tag(target_language)), *reversed(spans), None]

    def has_tag(self, language: str) -> bool:
        """Whether the model was taught to be asked for `language` by a tag."""
        return bool(self._tag(language))

    def _tag(self, language: str | None) -> list[int]:
        """Tags are control pieces: no text can be mistaken for one."""
        if language is None:
            return []
        tag = self._processor.piece_to_id(language_tag(language))
        return [tag] if self._processor.is_control(tag) else []

    def decode(self, ids: list[int]) -> str:
        detokenizer = Detokenizer(self)
        return "".join(map(detokenizer.push, ids)) + detokenizer.flush()

    def piece_bytes(self, token_id: int) -> bytes:
        """The UTF-8 that a token stands for: part of a character for a byte token, b"" for a special one."""
        return self._pieces[token_id]

    def _piece(self, token_id: int) -> bytes:
        piece = self._processor.id_to_piece(token_id)
        if self._processor.is_control(token_id) or self._processor.is_unused(token_id):
            return b""
        if self._processor.is_byte(token_id):
            return bytes([int(piece[3:-1], 16)])  # "<0xE2>"
        if self._processor.is_unknown(token_id):
            return "\ufffd".encode()
        return piece.replace(_SPACE, " ").encode()


class Detokenizer:
    """Turns ids into text one at a time; what it has returned never changes.

    Bytes of an unfinished character are held back until the character is whole, and left out where it never is: a
    small model sometimes writes half an emoji. The space that SentencePiece puts before the first word is dropped.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
        self._at_start = True

    def push(self, token_id: int) -> str:
        """The text that this token completes; often a word, sometimes nothing."""
        return self._strip_first_space(self._decoder.decode(self._tokenizer.piece_bytes(token_id)))

    def flush(self) -> str:
        """What is left at the end; nothing of an unfinished character."""
        return self._strip_first_space(self._decoder.decode(b"", final=True))

    def _strip_first_space(self, text: str) -> str:
        if self._at_start and text:
            self._at_start = False
            return text.removeprefix(" ")
        return text
