"""Subtitles to cues: SubRip, WebVTT, SubViewer (sbv), and SubStation Alpha (ass, ssa). All but texts is copied."""

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import Final

import regex

from service.documents.cues import Cue, cue_passages
from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage
from service.errors import InvalidRequest

_TIME: Final = r"((?:[0-9]{1,4}:)?[0-9]{1,2}:[0-9]{2}[.,][0-9]{1,3})"
_TIMING: Final = regex.compile(rf"^[ \t]*{_TIME}[ \t]*(?:-->|,)[ \t]*{_TIME}(?P<settings>[^\n]*)(?:\n|\Z)", regex.M)
_LAST_NUMBER: Final = regex.compile(r"^[^\S\n]*[0-9]{1,9}\s*\Z", regex.M)
"""The number of the next cue."""
_EMPTY_LINE: Final = regex.compile(r"^\r?\n", regex.M)
_NOTES: Final = regex.compile(r"(?<=^\r?\n)(?:NOTE|STYLE|REGION)[^\n]*+(?:\n(?!\r?\n)[^\n]*+)*+", regex.M)
_AUTOMATIC: Final = "align:start position:0%"
"""The settings of YouTube's automatic captions."""
_WORD_TIME: Final = regex.compile(r"<[0-9:.]{5,15}>(?:<c>)?|(?<=<[0-9:.]{5,15}><c>[^<>]{0,100})</c>")
_EVENT: Final = regex.compile(r"Dialogue:[^\n]*")
_FIELDS: Final = regex.compile(r"^Format:(?P<names>[^\n]*\bText)[ \t\r]*$", regex.M)
_DRAWING: Final = regex.compile(r"\{[^{}]*\\p[1-9][^{}]*\}")
_KARAOKE: Final = regex.compile(r"\{[^{}]*\\[kK][of]?[0-9]")


def read_subtitles(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the sentences of SubRip, WebVTT and SubViewer. Numbers, timings and settings are copied."""
    is_vtt = text.startswith("WEBVTT")
    cues = list(_cues(text, is_vtt=is_vtt))
    if not cues and text.strip() not in ("", "WEBVTT"):
        raise InvalidRequest("file", "it has no subtitles: there is no line with two times")
    for is_automatic, group in groupby(cues, lambda cue: is_vtt and _is_automatic(text, cue)):
        if is_automatic:
            yield from _lines_of_automatic(text, group)
        else:
            yield from cue_passages(text, group, has_references=is_vtt)


def _is_automatic(text: str, cue: Cue) -> bool:
    return cue.position == _AUTOMATIC or _WORD_TIME.search(text, *cue.place) is not None


def _cues(text: str, *, is_vtt: bool) -> Iterator[Cue]:
    """Find the cues. In WebVTT a cue ends at an empty line, elsewhere only before the header of the next one."""
    if is_vtt:
        text = _NOTES.sub(lambda found: regex.sub(r"[^\n]", " ", found[0]), text)
    for timing, following in pairwise([*_TIMING.finditer(text), None]):
        assert timing is not None
        start = timing.end()
        words = text[start : following.start() if following else len(text)]
        if is_vtt and (empty := _EMPTY_LINE.search(words)) is not None:
            words = words[: empty.start()]
        elif following is not None:
            words = _LAST_NUMBER.sub("", words)
        times = _seconds(timing[1]), _seconds(timing[2])
        yield Cue((start, start + len(words.rstrip())), *times, timing["settings"].strip())


def _seconds(time: str) -> float:
    hours_and_minutes, _, seconds = time.replace(",", ".").rpartition(":")
    hours, _, minutes = hours_and_minutes.rpartition(":")
    return int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds)


def _lines_of_automatic(text: str, cues: Iterable[Cue]) -> Iterator[Passage]:
    """Read automatic captions: each line comes again in the next cue. Times of words are left out."""
    for cue in cues:
        for line in regex.finditer(r"[^\r\n]+", text[slice(*cue.place)]):
            start, words = cue.place[0] + line.start(), _WORD_TIME.sub("", line[0])
            for found in cue_passages(words, [Cue((0, len(words)), 0, 0)], has_references=True):
                first, last = found.place if words == line[0] else (0, len(line[0]))
                yield found._replace(place=(start + first, start + last))


def read_events(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the sentences of SubStation Alpha: the texts of its dialogues."""
    fields = [found for found in _FIELDS.finditer(text) if "Start" in found["names"]]
    if not fields:
        raise InvalidRequest("file", "it has no subtitles: there is no line Format with the field Text")
    names = [name.strip() for name in fields[-1]["names"].split(",")]
    cues = []
    for found in _EVENT.finditer(text):
        values = found[0].removeprefix("Dialogue:").rstrip("\r").split(",", len(names) - 1)
        event = dict(zip(names, values, strict=False))
        words = event.get("Text", "")
        if not words or _DRAWING.search(words) or _KARAOKE.search(words):
            continue
        end = found.start() + len(found[0].rstrip("\r"))
        style, speaker = event.get("Style") or "", event.get("Name") or event.get("Actor") or ""
        start, stop = (_seconds(event[name].strip()) for name in ("Start", "End"))
        cues.append(Cue((end - len(words), end), start, stop, style, speaker))
    return cue_passages(text, cues, "\\N")
