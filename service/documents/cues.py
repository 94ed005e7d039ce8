"""Cues of subtitles to passages: speeches that share a sentence are translated together, and divided again."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import regex

from service.documents.passages import Passage, plain_items
from service.documents.tagged import Close, Item, Object, Open, Words

_LONGEST_PAUSE: Final = 1.0
"""Seconds between two cues of one sentence."""
_PAUSE_BEFORE_CAPITALS: Final = 0.3
"""The same if the second cue begins like a sentence."""
_MOST_CUES: Final = 6
"""The most cues of one sentence."""
_TAIL: Final = 200
"""Characters at the edges of a cue that decide whether its sentence goes on."""
_SENTENCE_END: Final = regex.compile(r"(?:[.!?…:;。！？♪)\]]|--|—)[\"”»’']?\s*+\Z")
_NEW_SPEECH: Final = regex.compile(r"(?:<[^<>]*+>)*+(?:[-–—]\s|♪|\[|\(|[A-Z]{2,20}:|<v[. ])")
_PREFIX: Final = regex.compile(r"(?:\s++|<v(?:\.[^<>\s]*)?\s[^<>]*>|\{[^{}]*\\(?:an?[0-9]|pos|move)[^{}]*\})+")
_POSITION: Final = regex.compile(r"\\an?[0-9]+|\\(?:pos|move)\([^()]*\)")
_CAPITAL: Final = regex.compile(r"\W*\p{Lu}")
_WRAPPED: Final = regex.compile(r"<(\w+)[^<>]*+>[^<]*+</\1>")
_VOICE_END: Final = regex.compile(r"(?:\s*</v>)+\s*\Z")
_MARKUP: Final = regex.compile(r"<[^<>]*+>|\{[^{}]*+\}")
_NO_WORDS: Final = regex.compile(r"(\{\\[^{}\n]*+\}|<[0-9][0-9:.]*>|[♪♫]+|\\h)")
"""Styles, times and notes of music: they are copied."""
_STYLE: Final = regex.compile(r"\{\\([ibus])([01])\}")
_WORD: Final = regex.compile(r"(?:<[^<>]*>|\{\\[^{}]*\}|\S)+")
_TAG: Final = regex.compile(r"<(/?)([A-Za-z]+)[^<>]*>|\{\\(?P<style>[ibus])(?P<is_on>[01])\}")


class Cue(NamedTuple):
    """A cue of a document."""

    place: tuple[int, int]
    """The place of its text in the document."""
    start: float
    end: float
    """Its times in seconds."""
    position: str = ""
    """Where it is shown, in any spelling."""
    speaker: str = ""


class _Speech(NamedTuple):
    """The lines of one speaker in a cue."""

    place: tuple[int, int]
    lines: Sequence[str]
    cue: Cue
    position: str
    speaker: str


def cue_passages(
    text: str, cues: Iterable[Cue], newline: str = "\n", *, has_references: bool = False
) -> Iterator[Passage]:
    """Read the sentences of cues. `newline` ends a line inside of a cue; `\\r` may stand before it."""
    speeches = [speech for cue in cues for speech in _speeches(text, cue, newline)]
    first = 0
    while first < len(speeches):
        last = first + 1
        while last < len(speeches) and last - first < _MOST_CUES and _is_continued(speeches[last - 1], speeches[last]):
            last += 1
        yield _sentence(text, speeches[first:last], newline, has_references=has_references)
        first = last


def _speeches(text: str, cue: Cue, newline: str) -> Iterator[_Speech]:
    """Split a cue where a line begins with another speaker; marks of voices and places stay outside."""
    start, end = cue.place
    lines: list[tuple[int, str]] = []
    position, speaker = cue.position, cue.speaker
    for line in text[start:end].split(newline):
        if lines and (_NEW_SPEECH.match(line[:_TAIL].lstrip()) or _ends_sentence(lines[-1][1])):
            yield _speech(lines, cue, position, speaker)
            lines = []
        line_start = start
        start += len(line) + len(newline)
        line = line.rstrip("\r")
        if not lines and (prefix := _PREFIX.match(line)) is not None:
            position = "".join(_POSITION.findall(prefix[0])) or cue.position
            speaker = prefix[0].strip() if "<v" in prefix[0] else cue.speaker
            line_start, line = line_start + prefix.end(), line[prefix.end() :]
        if line.strip():
            lines.append((line_start, line))
    if lines:
        yield _speech(lines, cue, position, speaker)


def _speech(lines: Sequence[tuple[int, str]], cue: Cue, position: str, speaker: str) -> _Speech:
    start, last = lines[-1]
    voice_end = _VOICE_END.search(last) if "</v>" in last else None
    last = last[: voice_end.start()] if voice_end else last.rstrip()
    texts = [*(line for _, line in lines[:-1]), last]
    return _Speech((lines[0][0], start + len(last)), texts, cue, position.replace("\\an2", ""), speaker)


def _is_continued(one: _Speech, two: _Speech) -> bool:
    """Return True if two speeches may share a sentence."""
    pause = two.cue.start - one.cue.end
    if one.cue is two.cue or two.cue.start < one.cue.start or pause > _LONGEST_PAUSE:
        return False
    if one.position != two.position or one.speaker != two.speaker:
        return False
    before = _MARKUP.sub("", one.lines[-1][-_TAIL:])
    after = _MARKUP.sub("", two.lines[0][:_TAIL])
    if not before or not after or before.isupper() != after.isupper():
        return False  # signs are in capitals
    if _CAPITAL.match(after) and (pause > _PAUSE_BEFORE_CAPITALS or _is_wrapped(one) != _is_wrapped(two)):
        return False
    return not (_SENTENCE_END.search(before) or _NEW_SPEECH.match(two.lines[0][:_TAIL]))


def _is_wrapped(speech: _Speech) -> bool:
    """Return True if all words of a speech are in one tag."""
    return _WRAPPED.fullmatch(" ".join(speech.lines)) is not None


def _ends_sentence(line: str) -> bool:
    return _SENTENCE_END.search(_MARKUP.sub("", line[-_TAIL:])) is not None


def _sentence(text: str, speeches: Sequence[_Speech], newline: str, *, has_references: bool) -> Passage:
    items: list[Item] = []
    for speech in speeches:
        for line in speech.lines:
            items += ([Words(" ")] if items else []) + [*_line_items(line)]
    between = [text[one.place[1] : two.place[0]] for one, two in pairwise(speeches)]
    written_newline = "\r\n" if newline == "\n" and "\r\n" in text[slice(*speeches[0].place)] else newline

    def write(translation: str) -> str:
        words = _WORD.findall(translation)
        shares = _shares(words, [sum(len(_MARKUP.sub("", line)) for line in speech.lines) for speech in speeches])
        written = ""
        for speech, share, gap in zip(speeches, _with_open_tags(shares), [*between, ""], strict=True):
            lines = _shares(share, [1] * len(speech.lines))
            written += written_newline.join(" ".join(line) for line in lines if line) + gap
        return written

    place = speeches[0].place[0], speeches[-1].place[1]
    return Passage(place, encode=write, context="cue", items=items, has_references=has_references)


def _line_items(line: str) -> Iterator[Item]:
    opened: list[str] = []
    for number, part in enumerate(_NO_WORDS.split(line)):
        if number % 2 == 0:
            yield from plain_items(part) if part else ()
            continue
        style = _STYLE.fullmatch(part)
        if style is not None and style[2] == "1" and f"{{\\{style[1]}0}}" in line:
            opened.append(style[1])
            yield Open(part)
        elif style is not None and opened[-1:] == [style[1]]:
            opened.pop()
            yield Close(part)
        else:
            yield Object([part])
    yield from (Close("") for _ in opened)


def _shares(words: Sequence[str], lengths: Sequence[int]) -> list[list[str]]:
    """Divide words in their order by lengths; each share gets at least one word if there are enough."""
    total, shares, done = max(sum(lengths), 1), [], 0
    ends = [0, *accumulate(len(_MARKUP.sub("", word)) + 1 for word in words)]
    for number, limit in enumerate(accumulate(lengths)):
        left = len(lengths) - number - 1
        most = max(len(words) - left, done)
        least = min(done + 1, most)
        end = max(min(_nearest(ends, limit / total * ends[-1]), most), least) if left else len(words)
        shares.append([*words[done:end]])
        done = end
    return shares


def _nearest(ends: Sequence[int], wanted: float) -> int:
    """Return the number of words whose joint length is nearest to the wanted one."""
    after = min(bisect_left(ends, wanted), len(ends) - 1)
    return after - 1 if after and wanted - ends[after - 1] <= ends[after] - wanted else after


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
            name, is_end = (found["style"], found["is_on"] == "0") if found["style"] else (found[2], bool(found[1]))
            if not is_end:
                opened.append((name, found[0]))
            elif opened and opened[-1][0] == name:
                opened.pop()
        words[-1] += "".join(
            tag.replace("1}", "0}") if tag.startswith("{") else f"</{name}>" for name, tag in reversed(opened)
        )
        yield words
