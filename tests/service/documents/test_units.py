"""Aligned units of each format, and what is left out of them."""

from pathlib import Path

import pytest

from service.documents.units import UnitReport, read_units
from service.errors import InvalidRequest

TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-US"><seg>Click <bpt i="1">&lt;b></bpt>Save<ept i="1">&lt;/b></ept>.</seg></tuv>
 <tuv xml:lang="FR_fr"><seg>Cliquez\u00a0: <bpt i="1">&lt;b></bpt>Enregistrer<ept i="1">&lt;/b></ept>.</seg></tuv></tu>
<tu><tuv lang="en"><seg>Press <ph x="1">{\\f0}</ph><sub>no</sub> in <ph x="2">%s</ph></seg></tuv>
 <tuv lang="fr"><seg>Dans <ph x="2">%s</ph>, appuyez sur <ph x="1">{\\f0}</ph></seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Same</seg></tuv><tuv xml:lang="fr"><seg>Same</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>One</seg></tuv><tuv xml:lang="en-GB"><seg>1</seg></tuv>
 <tuv xml:lang="fr"><seg>Un</seg></tuv><tuv xml:lang="zh-TW"><seg>一</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg/></tuv><tuv xml:lang="fr"><seg>x</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>A <bpt i="1">&lt;i></bpt>b</seg></tuv><tuv xml:lang="fr"><seg>A bé</seg></tuv></tu>
</body></tmx>"""
XLIFF = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en" target-language="fr"><body>
<trans-unit id="1"><source>Hi <x id="I" equiv-text="{{ name }}"/>, <g id="2">you</g></source>
 <target>Salut <x id="I" equiv-text="{{ name }}"/>, <g id="2">toi</g></target>
 <alt-trans><target>no</target></alt-trans></trans-unit>
<trans-unit id="2"><source>New</source><target state="new">Neu</target></trans-unit></body></file></xliff>"""
PO = """msgid ""
msgstr "Language: fr\\n"

#, fuzzy
msgid "a"
msgstr "b"

msgctxt "x"
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d fichier"
msgstr[1] "%d fichiers"
"""
NAMED = "t.en-fr.csv"
LEVELS = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 9))
LAUGHS = f'<!DOCTYPE tmx [<!ENTITY e0 "haha">{LEVELS}]><tmx>&e8;</tmx>'


def _read(tmp_path: Path, name: str, text: str | bytes) -> tuple[list[dict[str, str]], dict[str, int]]:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    report = UnitReport()
    units = [dict(each) for each in read_units(path, report)]
    assert report.units == len(units)
    return units, dict(report.left)


def test_tmx(tmp_path: Path) -> None:
    """Codes are what they stand for, or numbers that both languages share; countries do not count, scripts do."""
    units, left = _read(tmp_path, "a.TMX", TMX)
    assert units == [
        {"en": "Click <b>Save</b>.", "fr": "Cliquez\u00a0: <b>Enregistrer</b>."},
        {"en": "Press {\\f0} in %s", "fr": "Dans %s, appuyez sur {\\f0}"},
        {"en": "One", "fr": "Un", "zh-hant": "一"},
        {"en": "A b", "fr": "A bé"},
    ]
    assert left == {
        "not translated: equal in all languages": 1,
        "a language of the unit once more": 1,
        "empty": 1,
        "in one language only": 1,
        "inline codes that differ between the languages; the words were read": 1,
    }


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.xlf", XLIFF, [("Hi {{ name }}, <1>you</1>", "Salut {{ name }}, <1>toi</1>")]),
        ("a.po", PO, [("%d file", "%d fichier"), ("%d files", "%d fichiers")]),
        ("a.tsv", 'en-GB\tfr\nSay "a\tDites "a\nx\n', [('Say "a', 'Dites "a')]),
        (NAMED, '\ufeff"a; b";c\n'.encode(), [("a; b", "c")]),
        ("a.jsonl", '{"q":"a","s":"b","source":"en","target":"fr","sent_at":""}\n{"q":', [("a", "b")]),
    ],
)
def test_other_formats(tmp_path: Path, name: str, text: str | bytes, expected: list[tuple[str, str]]) -> None:
    assert _read(tmp_path, name, text)[0] == [{"en": source, "fr": target} for source, target in expected]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.tmx", LAUGHS, "a.tmx: the XML in it is broken: limit on input amplification factor"),
        ("a.tmx", TMX[:900], "a.tmx: the XML in it is broken: unclosed token: line"),
        ("a.csv", "a,b\n", "a.csv: its languages are unknown"),
        ("a.csv", b"en,fr\n\xff,b\n", "a.csv: its text is not in the encoding"),
        ("a.docx", "", "a.docx: is no memory"),
    ],
)
def test_broken_files(tmp_path: Path, name: str, text: str | bytes, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{problem}"):
        _read(tmp_path, name, text)
