"""SubRip and WebVTT subtitles to pieces: cues that share a sentence are translated together, and split again."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import regex

from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage, plain_items
from service.documents.tagged import Item, Object, Words
from service.errors import InvalidRequest

_TIME: Final = r"(?:[0-9]{1,4}:)?[0-9]{1,2}:[0-9]{2}[.,][0-9]{1,3}"
_CUE: Final = regex.compile(
    rf"^[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}[^\r\n]*+\r?\n(?P<text>(?:[^\r\n]*[^\s][^\r\n]*(?:\r?\n|\Z))*+)", regex.M
)
_NOTE: Final = regex.compile(r"^(?:NOTE|STYLE|REGION)\b.*?(?:\r?\n[ \t]*\r?\n|\Z)", regex.M | regex.S)
_SENTENCE_END: Final = regex.compile(r"(?:[.!?…:;。！？♪)\]]|--|—)[\"”»’']?(?:</[^>]*>)*\s*\Z")
_SPEAKER: Final = regex.compile(r"\s*(?:<[^>]*>)*(?:[-–—]\s|♪|\[|\(|[A-Z]{2,}:)")
_NO_WORDS: Final = regex.compile(r"(\{\\[^{}\n]*\}|<[0-9][0-9:.]*>|[♪♫]+)")
"""Styles, times and notes of music: they are copied."""
_WORD: Final = regex.compile(r"(?:<[^<>]*>|\{\\[^{}]*\}|\S)+")
_MARKUP: Final = regex.compile(r"<[^<>]*>|\{\\[^{}]*\}")
_TAG: Final = regex.compile(r"<(/?)([A-Za-z]+)[^<>]*>")
_MOST_CUES: Final = 6
"""The most cues of one sentence."""


class _Cue(NamedTuple):
    start: int
    end: int
    lines: Sequence[str]


def read_subtitles(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the sentences of subtitles. Timings, numbers and styles are copied."""
    is_vtt = text.lstrip("\ufeff").startswith("WEBVTT")
    notes = [found.span() for found in _NOTE.finditer(text)] if is_vtt else []
    cues = [
        _Cue(found.start("text"), found.start("text") + len(found["text"].rstrip()), found["text"].split("\n"))
        for found in _CUE.finditer(text)
        if not any(start <= found.start() < end for start, end in notes)
    ]
    if not cues and text.strip("\ufeff \r\n\t") not in ("", "WEBVTT"):
        raise InvalidRequest("file", "it has no subtitles: there is no line with two times")
    return _passages(text, cues, has_references=is_vtt)


def _passages(text: str, cues: Sequence[_Cue], *, has_references: bool) -> Iterator[Passage]:
    first = 0
    while first < len(cues):
        last = first + 1
        while last < len(cues) and last - first < _MOST_CUES and _is_continued(text, cues[last - 1], cues[last]):
            last += 1
        yield _sentence(text, cues[first:last], has_references=has_references)
        first = last


def _is_continued(text: str, cue: _Cue, following: _Cue) -> bool:
    before, after = text[cue.start : cue.end], text[following.start : following.end]
    return bool(before and after) and not (_SENTENCE_END.search(before) or _SPEAKER.match(after))


def _sentence(text: str, cues: Sequence[_Cue], *, has_references: bool) -> Passage:
    parts = [text[cue.start : cue.end] for cue in cues]
    between = [text[one.end : two.start] for one, two in pairwise(cues)]
    items: list[Item] = []
    for part in parts:
        for line in part.splitlines():
            if items:
                # A new speaker begins a new sentence; other lines end anywhere.
                items.append(Object(["\n"], is_break=True) if _SPEAKER.match(line) else Words(" "))
            items += _line_items(line)

    def write(translation: str) -> str:
        return _share(translation, parts, between)

    return Passage(
        (cues[0].start, cues[-1].end), encode=write, context="cue", items=items, has_references=has_references
    )


def _line_items(line: str) -> Iterator[Item]:
    for number, part in enumerate(_NO_WORDS.split(line)):
        if number % 2:
            yield Object([part])
        elif part:
            yield from plain_items(part)


def _share(translation: str, parts: Sequence[str], between: Sequence[str]) -> str:
    """Divide the words of a translation among the cues of its text, by their lengths."""
    speeches = translation.split("\n") if len(parts) == 1 else [translation.replace("\n", " ")]
    words = [_WORD.findall(speech) for speech in speeches]
    if len(parts) == 1:
        newline = "\r\n" if "\r\n" in parts[0] else "\n"
        lines = max(len(parts[0].splitlines()) // len(words), 1)
        return newline.join(part for speech in words for part in _wrapped(speech, lines))
    shares = _shares(words[0], [len(_MARKUP.sub("", part)) for part in parts])
    written = []
    for part, share in zip(parts, _with_open_tags(shares), strict=True):
        newline = "\r\n" if "\r\n" in part else "\n"
        written.append(newline.join(_wrapped(share, len(part.splitlines()))))
    return "".join(each for pair in zip(written, [*between, ""], strict=True) for each in pair)


def _wrapped(words: Sequence[str], lines: int) -> Iterator[str]:
    for share in _shares(words, [1] * lines):
        if share:
            yield " ".join(share)


def _shares(words: Sequence[str], lengths: Sequence[int]) -> list[list[str]]:
    """Divide words in their order by lengths; each share gets at least one word if there are enough."""
    total, shares, done = max(sum(lengths), 1), [], 0
    ends = list(accumulate(len(_MARKUP.sub("", word)) + 1 for word in words))
    for number, limit in enumerate(accumulate(lengths)):
        left = len(lengths) - number - 1
        most = max(len(words) - left, done)
        least = min(done + 1, most)
        wanted = limit / total * (ends[-1] if ends else 0)
        end = max(min(_nearest(ends, wanted), most), least) if left else len(words)
        shares.append([*words[done:end]])
        done = end
    return shares


def _nearest(ends: Sequence[int], wanted: float) -> int:
    """Return the number of words whose joint length is nearest to the wanted one."""
    return min(range(len(ends) + 1), key=lambda count: abs((ends[count - 1] if count else 0) - wanted))


def _with_open_tags(shares: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Close the tags that are open at the end of a share, and open them again in the next."""
    opened: list[tuple[str, str]] = []
    for share in shares:
        words = list(share)
        if not words:
            yield words
            continue
        words[0] = "".join(tag for _, tag in opened) + words[0]
        for found in _TAG.finditer(" ".join(share)):
            if not found[1]:
                opened.append((found[2], found[0]))
            elif opened and opened[-1][0] == found[2]:
                opened.pop()
        words[-1] += "".join(f"</{name}>" for name, _ in reversed(opened))
        yield words
