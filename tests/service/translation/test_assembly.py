"""Tests of tokens becoming texts: segments, their versions, and the details that a request asks for."""

from types import SimpleNamespace
from typing import cast

import pytest
from msgspec import UNSET

from model.beam_search import Inspection
from model.tokenizer import Tokenizer
from service.engine.messages import Alternative, BeamReport, FinishReason, LiveHypothesis, TokenReport, TokenRun
from service.registry.served_model import ServedModel
from service.text.segment import Mark, Segment, Term
from service.translation.assembly import SegmentAssembly, TextAssembly, Version, segment_finished
from service.translation.events import Alignment, BeamStepped, Candidate, TokenGenerated
from service.translation.preprocess import EncodedSegment


def _encoded(tokenizer: Tokenizer, segment: Segment, *spans: tuple[int, int] | None, offset: int = 0) -> EncodedSegment:
    model = cast(ServedModel, SimpleNamespace(tokenizer=tokenizer))
    return EncodedSegment(0, model, segment, [1], spans, offset)


def _assembly(tokenizer: Tokenizer, segment: Segment, *spans: tuple[int, int]) -> SegmentAssembly:
    return SegmentAssembly(3, _encoded(tokenizer, segment, *spans))


def _words(tokenizer: Tokenizer, translated: str, inspection: Inspection = Inspection()) -> list[TokenReport]:  # noqa: B008
    """Return the tokens of some words: 0 is the placeholder of the first term, and +s an ending of the word before."""
    ending = next(each for each in range(len(tokenizer)) if tokenizer.piece_bytes(each) == b"s")
    return [
        TokenReport(1, token, -0.5, term=0 if word == "0" else None, inspection=inspection)
        for word in translated.split()
        for token in ([ending] if word == "+s" else tokenizer.encode_target("X" if word == "0" else word))
    ]


def _ended(tokenizer: Tokenizer, tokens: list[TokenReport]) -> list[TokenReport]:
    """Return a translation, and itself as its alternative."""
    return [*tokens, TokenReport(1, tokenizer.eos_id, -0.5, "stop", alternatives=[Alternative(tokens, -1.0)])]


def _reports(tokenizer: Tokenizer, text: str, **last: object) -> list[TokenReport]:
    ids = tokenizer.encode(text)
    *first, end = [TokenReport(1, token, -0.5) for token in ids]
    return [*first, TokenReport(1, end.token_id, -0.5, "stop", **last)]  # type: ignore[arg-type]


def test_the_events_of_a_segment_add_up_to_its_text(tokenizer: Tokenizer) -> None:
    assembly = _assembly(tokenizer, Segment("  ", "x", "\n"))
    events = [assembly.push(report) for report in _reports(tokenizer, "the cat")]
    assert "".join(event.text for event in events) == "  the cat\n"
    assert [(event.segment, event.index) for event in events] == [(3, index) for index in range(len(events))]
    assert all(event.candidates is UNSET for event in events)
    [version] = assembly.versions()
    assert version == Version("  the cat\n", -0.5 * len(events), len(events))
    assert (version.score, assembly.finish_reason) == (-0.5, "stop")


def test_the_separator_comes_first(tokenizer: Tokenizer) -> None:
    segment = Segment("<b>", "x", "\n", separator=" ")
    assembly = _assembly(tokenizer, segment)
    assert "".join(assembly.push(report).text for report in _reports(tokenizer, "the cat")) == " <b>the cat\n"
    assert segment.copied_text == " <b>x\n"


def test_alternatives_carry_the_text_around_and_are_not_empty(tokenizer: Tokenizer) -> None:
    empty, other = (Alternative(_reports(tokenizer, text), -7.0) for text in ("", "the dog"))
    encoded = _encoded(tokenizer, Segment(" <b>", "x", "</b>\n"))
    assembly = SegmentAssembly(0, encoded)
    for report in _reports(tokenizer, "the cat", alternatives=[empty, other]):
        assembly.push(report)
    versions = assembly.versions()
    assert [version.text for version in versions] == [" <b>the cat</b>\n", " <b>the dog</b>\n"]
    assert versions[1].score == -7.0 / len(other.tokens)
    assert segment_finished(0, encoded, (1, 2), versions, "stop", with_alternatives=False).alternatives is UNSET


def test_a_candidate_is_the_text_of_its_token(tokenizer: Tokenizer) -> None:
    first = tokenizer.encode("the")[0]
    report = TokenReport(1, first, -0.5, inspection=Inspection([(first, -0.5), (tokenizer.eos_id, -1.0)]))
    event = _assembly(tokenizer, Segment("", "x", "")).push(report)
    assert event.candidates == [Candidate(tokenizer.piece_bytes(first).decode(), -0.5), Candidate("", -1.0)]


def test_a_token_is_aligned_to_characters_of_its_text(tokenizer: Tokenizer) -> None:
    first = tokenizer.encode("the")[0]
    assembly = SegmentAssembly(
        0, _encoded(tokenizer, Segment("", "x", ""), (3, 6), None, offset=4), shows_alignment=True
    )
    aligned = [Inspection(alignment=(position, 0.4)) for position in (0, 1)]
    events = [assembly.push(TokenReport(1, first, -0.5, inspection=each)) for each in aligned]
    assert [event.alignment for event in events] == [Alignment(7, 10, 0.4), None]
    assert assembly.push(TokenReport(1, first, -0.5)).alignment is UNSET


def test_live_hypotheses_grow_from_their_parents(tokenizer: Tokenizer) -> None:
    """Partial characters, terms and capitals are treated as in the translation; scores are means."""
    the, *cat = tokenizer.encode_target("the cat")
    dog, emoji = tokenizer.encode_target("dog"), tokenizer.encode_target("🐈")[-4:]
    segment = Segment("(", "X", ")", capitals=True, terms=[Term(0, 1, "le chien")])
    assembly = _assembly(tokenizer, segment)
    steps = [
        [LiveHypothesis(0, [the], -1.0), LiveHypothesis(0, dog, -2.0)],
        [LiveHypothesis(1, emoji[:2], -3.0), LiveHypothesis(0, cat, -3.0), LiveHypothesis(0, [the], -4.0, term=0)],
        [LiveHypothesis(0, emoji[2:], -3.5), LiveHypothesis(2, [the], -5.0, term=0)],
    ]
    events = assembly.events([BeamReport(1, step) for step in steps])
    assert [type(event) for event in assembly.events([TokenReport(1, the, -1.0)])] == [TokenGenerated]
    steps_seen = [event for event in events if isinstance(event, BeamStepped)]
    assert [(event.segment, event.step) for event in steps_seen] == [(3, 1), (3, 2), (3, 3)]
    texts = [[each.text for each in event.hypotheses] for event in steps_seen]
    assert texts[0] == ["(THE", "(DOG"]
    assert texts[1][:2] == ["(DOG", "(THE CAT"]
    assert texts[2][0] == "(DOG🐈"
    assert texts[1][2] == texts[2][1]
    assert "chien" in texts[1][2].lower()
    assert steps_seen[1].hypotheses[2].score == -2.0


def test_a_sentence_in_capitals_is_translated_in_capitals(tokenizer: Tokenizer) -> None:
    other = Alternative(_reports(tokenizer, "the dog"), -7.0)
    assembly = _assembly(tokenizer, Segment("a ", "X", " b", capitals=True))
    reports = _reports(tokenizer, "le chat mangé", alternatives=[other])
    events = [assembly.push(report) for report in reports]
    assert "".join(event.text for event in events) == "a LE CHAT MANGÉ b"
    assert [version.text for version in assembly.versions()] == ["a LE CHAT MANGÉ b", "a THE DOG b"]


@pytest.mark.parametrize(
    ("segment", "translated", "expected"),
    [
        (Segment("(", "58,583 cats", ")"), "5858 3 chats", "(58,583 chats)"),
        (Segment("", "the 58,583", ".", encoding="attribute"), "le 58683 '", "le 58,583 &#x27;."),
        (Segment("", "58,583 and", "!", terms=[Term(0, 6, "58,583", is_copy=True)]), "le 58683", "le 58683 58,583!"),
        (Segment("", "58,583 URL", "!", terms=[Term(7, 10, "a1", is_copy=True)]), "le 58683 0", "le 58,583 a1!"),
        (Segment("", "58,583 b", "", marks=[Mark(0, 6, "<b>", "</b>")]), "58683", "<b>58,583</b>"),
    ],
)
def test_a_number_is_repaired(tokenizer: Tokenizer, segment: Segment, translated: str, expected: str) -> None:
    """Alternatives are repaired too, copied terms are not, and live hypotheses do not interfere."""
    reports = _ended(tokenizer, _words(tokenizer, translated, Inspection(alignment=(0, 0.9))))
    assembly = _assembly(tokenizer, segment, (0, 2))
    assembly.events([BeamReport(1, [LiveHypothesis(0, tokenizer.encode_target("77"), -1.0)])])
    assert "".join(assembly.push(report).text for report in reports) == expected
    assert [version.text.removesuffix(segment.after) for version in assembly.versions()] == [
        expected.removesuffix(segment.after)
    ] * 2


@pytest.mark.parametrize(
    ("sentence", "term", "translated", "expected"),
    [
        ("the URL here", "URL", "le 0 chat", "le URL chat"),
        ("URL here", "URL", "0 le chat", "URL le chat"),
        ("the (URL) here", "URL", "le ( 0 ) chat", "le (URL ) chat"),
        ("the-URL here", "URL", "le 0 chat", "le URL chat"),  # without the hyphen it would join the word
        ("theURL here", "URL", "le 0 chat", "leURL chat"),
        ("the URL, so", "URL", "0", "URL"),
        ("見URL。", "URL", "le 0 chat", "le URL chat"),  # a script without spaces gives no evidence
        ("the URL here", "URL", "le chat chat", "le chat chat URL"),  # a degenerate translation has lost it
        # No other placeholder is left; words that begin like one stay.
        ("See {a}us now", "{a}", "le 0 chat", "le {a}chat"),
        ("See {a} us now", "{a}", "le X 0 X chat X", "le {a} chat"),
        ("See {a} us now", "{a}", "le Xi 0", "le Xi {a}"),
        ("See {a} or X now", "{a}", "le X 0", "le X {a}"),
        ("An x-ray of {a} now", "{a}", "le X 0", "le X {a}"),
        ("A fox at {a} now", "{a}", "le X 0 chat", "le {a} chat"),
        ("{a}は学生です", "{a}", "0 chat", "{a} chat"),
        ("{a}는 학생입니다", "{a}", "0 chat", "{a} chat"),
    ],
)
def test_a_copied_term_is_unchanged(
    tokenizer: Tokenizer, sentence: str, term: str, translated: str, expected: str
) -> None:
    """The spaces around a term are those of the source, whatever the model wrote."""
    start = sentence.index(term)
    segment = Segment("", sentence, "", terms=[Term(start, start + len(term), term, is_copy=True)])
    assembly = _assembly(tokenizer, segment)
    reports = _ended(tokenizer, _words(tokenizer, translated))
    assert "".join(assembly.push(report).text for report in reports) == expected
    assert [version.text for version in assembly.versions()] == [expected] * 2


@pytest.mark.parametrize(("forced", "expected"), [(0, "le 58583"), (99, "le 58584")])
def test_a_target_prefix_is_not_repaired(tokenizer: Tokenizer, forced: int, expected: str) -> None:
    tokens = [TokenReport(1, token, -0.5) for token in tokenizer.encode_target("le 58584")]
    encoded = _encoded(tokenizer, Segment("", "The 58583 cats", ""))
    assembly = SegmentAssembly(0, encoded._replace(forced_ids=[1] * forced))
    reports = [*tokens, TokenReport(1, tokenizer.eos_id, -0.5, "stop")]
    assert "".join(assembly.push(report).text for report in reports) == expected


@pytest.mark.parametrize(
    ("segment", "translated", "expected"),
    [
        (Segment("", "A cat.", "", terms=[Term(2, 5, "matou")]), "un 0", "un matou"),
        (Segment("- ", "Cat here.", "", terms=[Term(0, 3, "gros matou")]), "0 ici", "- Gros matou ici"),
        (Segment("", "Cat here.", "", terms=[Term(0, 3, "matou")]), "le 0 ici", "le matou ici"),
        (Segment("", "Cat here.", "", terms=[Term(0, 3, "iChat pro")]), "0 ici", "iChat pro ici"),
        (Segment("", "cat here.", "", terms=[Term(0, 3, "matou")]), "0 ici", "matou ici"),
        (Segment("", "The CAT.", "", terms=[Term(4, 7, "chat été", capitals=True)]), "le 0", "le CHAT ÉTÉ"),
        (Segment("", "A CAT.", "", terms=[Term(2, 5, "r&d")], capitals=True, encoding="html"), "un 0", "UN R&amp;D"),
        (Segment("", "The bear.", "", terms=[Term(4, 8, "ours")]), "l' 0", "l'ours"),
        (Segment("", "The cat is.", "", terms=[Term(4, 7, "chat")]), "le 0 +s est", "le chat est"),
        (Segment("", "The cat.", "", terms=[Term(4, 7, "猫")]), "le 0", "le猫"),
        (Segment("", "黒猫。", "", terms=[Term(1, 2, "chat")]), "le 0", "le chat"),
    ],
)
def test_a_glossary_term_fits_its_place(tokenizer: Tokenizer, segment: Segment, translated: str, expected: str) -> None:
    """A term gets its capital, its escapes, no space where the language has none, and no ending from the model (+)."""
    assembly = _assembly(tokenizer, segment)
    assert "".join(assembly.push(report).text for report in _words(tokenizer, translated)) == expected


def _version(text: str, score: float = -1.0) -> Version:
    return Version(text, 2 * score, 2)


def test_the_alternatives_of_a_text_combine_its_segments_alternatives() -> None:
    assembly = TextAssembly(3)
    assembly.add(Segment("", "", ""), [_version("A. "), _version("B. ", -2), _version("C. ", -3), _version("D. ", -4)])
    assembly.add(Segment("", "", ""), [Version("42. ", 0.0, 0)])
    assembly.add(Segment("", "", ""), [_version("x."), _version("y.", -4)])
    text = assembly.finished()
    assert (text.text, text.score) == ("A. 42. x.", -1.0)
    assert [each.text for each in text.alternatives] == ["B. 42. y.", "C. 42. x.", "D. 42. x."]
    assert [each.score for each in text.alternatives] == [-3.0, -2.0, -2.5]


def test_each_alternative_text_comes_once() -> None:
    assembly = TextAssembly(3)
    assembly.add(Segment("", "", ""), [_version("A"), _version("B", -2), _version("A", -3), _version("B", -4)])
    assert [(each.text, each.score) for each in assembly.finished().alternatives] == [("B", -2.0)]


@pytest.mark.parametrize("count", [0, 2])
def test_an_empty_text_has_no_score(count: int) -> None:
    text = TextAssembly(count).finished()
    assert (text.text, text.score, text.alternatives) == ("", None, [])


@pytest.mark.parametrize(
    "segment",
    [
        Segment("a ", "the cat", " b", separator="\n"),
        Segment("", "the cat", "", capitals=True),
        Segment("", "x < y & z", ".", encoding="attribute"),
        Segment("(", "58,583 cats", ")"),
        Segment("", "the cat", "", marks=[Mark(0, 3, "<b>", "</b>")]),
        Segment("", "X cat", "!", terms=[Term(0, 1, "le chat")]),
    ],
)
@pytest.mark.parametrize("length", [1, 3, 100])
def test_runs_of_tokens_give_the_events_of_single_tokens(tokenizer: Tokenizer, segment: Segment, length: int) -> None:
    ids = [*tokenizer.encode_target("le chat 🐈 & 5858 3 mangé"), tokenizer.eos_id]
    logprobs = [-0.1 * number for number in range(len(ids))]
    single, together = (_assembly(tokenizer, segment, (0, 1)) for _ in range(2))
    runs = []
    for start in range(0, len(ids), length):
        reason: FinishReason | None = "stop" if start + length >= len(ids) else None
        runs.append(TokenRun(ids[start : start + length], logprobs[start : start + length], reason))
    reports = [report for run in runs for report in run.reports(1)]
    assert together.events(runs) == single.events(reports)
    assert together.versions() == single.versions()
    assert together.finish_reason == single.finish_reason == "stop"
