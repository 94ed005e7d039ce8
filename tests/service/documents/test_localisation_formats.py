"""Files of messages, each in capitals: only texts differ, and without a change every byte stays."""

import pytest

from service.errors import ServiceError
from tests.service.documents.conftest import Rewrite, same

ANDROID = (
    '<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2"><string name="a">it\\\'s <b>a</b> "cat"</string>'
    '<string name="b" translatable="false">no</string><string name="c">@string/a</string>'
    '<string name="d">see <xliff:g id="x">%1$s</xliff:g> now</string><plurals name="p"><item quantity="one">file</item>'
    '</plurals><string name="q"> "a  <b>b</b>" </string><item>no</item></resources>'
)
RESX = (
    '<root><resheader name="version"><value>two</value></resheader><data name="a" xml:space="preserve"><value>one\n'
    'two</value><comment>no</comment></data><data name="b" type="x"><value>no</value></data></root>'
)
TS = (
    "<!DOCTYPE TS>\n<TS><context><name>no</name><message><source>a &amp;cat</source>"
    '<translation type="unfinished">{}</translation></message><message numerus="yes"><source>a file</source>'
    '<translation type="unfinished"><numerusform>{}</numerusform><numerusform>{}</numerusform></translation></message>'
    "<message><source>done</source><translation>fait</translation></message></context></TS>"
)
STRINGSDICT = (
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">\n<plist><dict>'
    "<key>NSStringLocalizedFormatKey</key><string>%#@a@</string><key>one</key><string>{}</string></dict></plist>"
)
TMX = '<tmx><body><tu><tuv xml:lang="en-US"><seg>a <bpt i="1"/>cat<ept i="1"/></seg></tuv>{}</tu></body></tmx>'
TTML = '<tt xml:lang="en" xmlns="tt"><metadata>no</metadata><p begin="0s">{}<br/><span>{}</span></p></tt>'
FLUENT = (
    "# no\na = <i></i> {0} {{ $x }} <b>{0}</b>.\n    .title = {0}\n-term = {0}\n"
    "n = {{ $count ->\n    [one] {0}\n   *[other] {0} {{ $count }}\n  }}\n"
    'link =\n    {0}:\n    1. <a href="{{ $x }}">{0}</a>\n    2. {0}\n'
)
CASES = {
    "android": ("a.xml", ANDROID, ANDROID.replace("it\\'s", "IT\\'S").replace(">a</b> \"cat\"", ">A</b> \\\"CAT\\\"")
        .replace(">see", ">SEE").replace("$s", "$S").replace("> now", "> NOW").replace("file<", "FILE<")
        .replace('"a  <b>b<', '"A  <b>B<')),
    "resx": ("a.resx", RESX, RESX.replace("one\ntwo", "ONE\nTWO")),
    "stringsdict": ("a.stringsdict", STRINGSDICT.format("a file"), STRINGSDICT.format("A FILE")),
    "ttml": ("a.ttml", TTML.format("one", "two"), TTML.format("ONE", "TWO").replace('"en"', '"fr"')),
    "fluent": ("a.ftl", FLUENT.format("one"), FLUENT.format("ONE")),
    "arb": (
        "a.arb",
        '{"@@locale": "en", "a": "hello", "@a": {"description": "no", "x": {"b": "no"}}, "c": "two"}',
        '{"@@locale": "en", "a": "HELLO", "@a": {"description": "no", "x": {"b": "no"}}, "c": "TWO"}',
    ),
    "properties": (
        "a.properties",
        "# no\na.b = one \\\n    two\\: x\nc:caf\\u00e9\n! no\nempty=\nd=a\n",
        "# no\na.b = ONE TWO: X\nc:CAF\\u00c9\n! no\nempty=\nd=A\n",
    ),
    "csv with a separator": ("a.csv", "sep=;\r\na,b;c\r\n", "sep=;\r\nA,B;C\r\n"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "expected"), CASES.values(), ids=CASES)
def test_translated(name: str, content: str, expected: str, rewrite: Rewrite) -> None:
    assert rewrite(name, content, same).decode() == content
    assert rewrite(name, content).decode() == expected


def test_messages_of_qt(rewrite: Rewrite) -> None:
    assert rewrite("a.ts", TS.format("", "", "")).decode() == TS.format("A &amp;CAT", "A FILE", "A FILE")


def test_a_translation_memory_gets_another_language(rewrite: Rewrite) -> None:
    added = '<tuv xml:lang="fr"><seg>A <bpt i="1"/>CAT<ept i="1"/></seg></tuv>'
    assert rewrite("a.tmx", TMX.format("")).decode() == TMX.format(added)
    assert rewrite("a.tmx", TMX.format(added)).decode() == TMX.format(added)


def test_properties(rewrite: Rewrite) -> None:
    assert rewrite("a.properties", "a=caf\xe9 is\n".encode("latin-1")) == "a=CAF\xc9 IS\n".encode("latin-1")
    assert rewrite("a.properties", "a=b\n", lambda _: "\u201cb\U0001f600") == b"a=\\u201cb\\ud83d\\ude00\n"
    java = "a=it''s {0}\nb=see {0}\nc=it's\n"
    assert (
        rewrite("a.properties", java, lambda html: html.replace("s", "s'")) == b"a=it''s'' {0}\nb=s''ee {0}\nc=it's'\n"
    )
    assert rewrite("a.properties", "a=see {0}\n", lambda _: "l'{0}") == b"a=l\\u2019{0}\n"
    assert rewrite("a.properties", "a=true\nb=it is true\n") == b"a=true\nb=IT IS TRUE\n"  # a switch of the program


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.xml", "<html><p>a</p></html>", "it begins with html"),
        ("a.ftl", "a = b\nc\n", r"the Fluent file is broken: .* \(line 2\)"),
        ("a.arb", '{"a": }', "the JSON is broken"),
        ("a.csv", '"' + "a" * 200_000, "a quote in row 1 is not closed"),
        ("a.csv", "a" * 140_000 + ",b\n", "a paragraph has more than"),
    ],
)
def test_broken(name: str, content: str, problem: str, rewrite: Rewrite) -> None:
    with pytest.raises(ServiceError, match=f"^file: .*{problem}"):
        rewrite(name, content)
