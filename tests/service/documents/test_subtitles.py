"""Subtitles: which cues are translated together, and what stays where it is."""

import pytest

from service.errors import InvalidRequest
from tests.service.documents.conftest import FILES, Noting, Rewrite, same, translated_in


def _srt(*cues: tuple[float, float, str]) -> str:
    times = (f"00:00:{start:06.3f} --> 00:00:{end:06.3f}".replace(".", ",") for start, end, _ in cues)
    return "".join(f"{n}\n{time}\n{cue[2]}\n\n" for n, (time, cue) in enumerate(zip(times, cues, strict=True), 1))


@pytest.mark.parametrize(
    ("cues", "speeches"),
    [
        ([(1, 2, "We must go"), (2, 3, "before the night.")], ["We must go before the night."]),
        ([(1, 2, "We must go"), (3.5, 4, "before the night.")], ["We must go", "before the night."]),
        ([(1, 2, "We must go"), (2.5, 3, "Chapter one")], ["We must go", "Chapter one"]),
        ([(1, 2, "THE RED HOUSE"), (2, 3, "a film by me")], ["THE RED HOUSE", "a film by me"]),
        ([(1, 2, "{\\an8}A sign"), (2, 3, "{\\an2}we go")], ["A sign", "we go"]),
        ([(1, 2, "We go"), (2, 3, "{\\an2}and stay")], ["We go and stay"]),  # the usual place
        ([(1, 2, "{\\fad(1,1)\\pos(3,5)}A sign"), (2, 3, "we go")], ["A sign", "we go"]),
        ([(1, 2, "ANNA: I see\nBEN: me too")], ["ANNA: I see", "BEN: me too"]),
        ([(1, 2, "It is.\nIs it?")], ["It is.", "Is it?"]),
        ([(1, 2, "It\n\nis here.")], ["It is here."]),
        ([(1, 2, "It is"), (2, 3, "(laughs) so")], ["It is", "(laughs) so"]),
    ],
)
def test_cues_of_one_sentence_are_translated_together(
    cues: list[tuple[float, float, str]], speeches: list[str], rewrite: Rewrite
) -> None:
    assert translated_in("a.srt", _srt(*cues), rewrite) == speeches


def test_cues_without_blank_lines_and_numbers(rewrite: Rewrite) -> None:
    text = "\ufeff00:01,000 --> 00:02,000\nOne.\n00:03,000 --> 00:04,000\nTwo.\n3\n00:05,000 --> 00:06,000\nx"
    assert translated_in("a.srt", text, rewrite) == ["One.", "Two.", "x"]
    vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\nOne.\n00:03.000 --> 00:04.000\nTwo.\n\nNOTE\n00:05.000 --> 00:06.000\nx\n"
    assert translated_in("a.vtt", vtt, rewrite) == ["One.", "Two."]


def test_voices_stay_on_their_cues(rewrite: Rewrite) -> None:
    vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Anna>we are\n\n00:02.000 --> 00:03.000\n<v Anna>here\n\n"
    vtt += "00:03.000 --> 00:04.000\n<v Ben>and I, too</v>\n"
    assert translated_in("a.vtt", vtt, rewrite) == ["we are here", "and I, too"]
    written = rewrite("a.vtt", vtt).decode()
    assert [line for line in written.splitlines() if "<v" in line] == [
        "<v Anna>WE ARE",
        "<v Anna>HERE",
        "<v Ben>AND I, TOO</v>",
    ]


def test_lines_of_automatic_captions_repeat_their_translation(rewrite: Rewrite) -> None:
    head = "WEBVTT\n\n00:00.160 --> 00:03.429 align:start position:0%\n \n"
    rest = "\n\n00:03.429 --> 00:03.439 align:start position:0%\nthe cat sleeps\n \n"
    vtt = head + "the<00:00:00.960><c> cat</c><00:00:01.520><c> sleeps</c>" + rest
    assert rewrite("a.vtt", vtt).decode() == (head + "the cat sleeps" + rest).replace("the cat", "THE CAT").replace(
        "sleeps", "SLEEPS"
    )


ASS = (
    "[Script Info]\nTitle: x\n\n[V4+ Styles]\nFormat: Name, Fontname\nStyle: Default,Arial\n\n[Events]\n"
    "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    "Comment: 0,0:00:01.00,0:00:03.00,Default,,0,0,0,,no\n"
    "Dialogue: 0,0:00:01.00,0:00:03.00,Default,,0,0,0,,{\\i1}hello.{\\i0}\\Nhow, are you?\n"
    "Dialogue: 0,0:00:04.00,0:00:05.00,Sign,,0,0,0,,{\\p1}m 0 0 l 1 1{\\p0}\n"
    "Dialogue: 0,0:00:06.00,0:00:07.00,Default,,0,0,0,,{\\an8}we\n"
    "Dialogue: 0,0:00:07.00,0:00:08.00,Default,,0,0,0,,{\\an8}go\n"
)


def test_dialogues_of_substation_alpha(rewrite: Rewrite) -> None:
    assert translated_in("a.ass", ASS, rewrite) == ["<g1>hello.</g1>", "how, are you?", "we go"]
    expected = ASS
    for text in ("hello", "how, are you", "}we", "}go"):
        expected = expected.replace(text, text.upper())
    assert rewrite("a.ass", ASS).decode() == expected
    broken = "Format: Start, End, Text\nDialogue: 0\n"
    assert rewrite("a.ssa", broken).decode() == broken


def test_subtitles_in_windows_1252(rewrite: Rewrite) -> None:
    text = _srt((1, 2, "the caf\u00e9 is closed \u2013 sorry."))
    assert rewrite("a.srt", text.encode("cp1252"), same) == text.encode("cp1252")
    with pytest.raises(InvalidRequest, match="it is not UTF-8"):
        rewrite("a.srt", _srt((1, 2, "\u4f60\u597d")).encode("gb2312"))


def test_a_sentence_of_two_cues_is_split_again(rewrite: Rewrite) -> None:
    written = rewrite("film.srt", (FILES / "film.srt").read_bytes()).decode()
    assert written.split("\n\n")[0].splitlines()[2:] == ["I HAVE BEEN LIVING IN", "THIS HOUSE SINCE THE YEAR"]
    assert written.split("\n\n")[1].splitlines()[2:] == ["<i>OF THE GREAT WAR</i> WITH MY MOTHER."]
    assert "{\\an8}♪ THE SUN IS RED ♪" in written
    assert "- ARE YOU READY?\n- YES, I AM READY." in written


def test_references_are_characters_in_webvtt_alone(rewrite: Rewrite) -> None:
    vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\nsalt &amp; <i>tea&nbsp;&lt;3</i>\n"
    assert rewrite("a.vtt", vtt).decode().endswith("\nSALT &amp; <i>TEA &lt;3</i>\n")
    srt = "1\n00:00:01,000 --> 00:00:02,000\nsalt & tea\n"
    assert rewrite("a.srt", srt).decode().endswith("\nSALT & TEA\n")


def test_notes_of_music_stay_around_a_song(rewrite: Rewrite) -> None:
    noting = Noting(str.upper)
    song = "1\n00:00:01,000 --> 00:00:02,000\n♪ the sun ♪\n"
    assert rewrite("a.srt", song, noting).decode().endswith("\n♪ THE SUN ♪\n")
    assert [html.strip() for html in noting.seen] == ["the sun"]


def test_a_tag_over_two_cues_is_closed_and_opened_again(rewrite: Rewrite) -> None:
    times = "00:00:0{}.000 --> 00:00:02.000\n"
    source = times.format(1) + "<i>one two</i>\n\n" + times.format(2) + "three four\n"
    written = rewrite("a.srt", source, lambda _: "<g1>UN DEUX TROIS QUATRE CINQ</g1> SIX").decode()
    assert written.split("\n\n")[0].splitlines()[1] == "<i>UN DEUX TROIS</i>"
    assert written.split("\n\n")[1].splitlines()[1] == "<i>QUATRE CINQ</i> SIX"
