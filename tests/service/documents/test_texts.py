"""Documents that are texts: what is translated, and what keeps its bytes."""

import pytest

from service.documents.formats import FORMATS
from service.errors import InvalidRequest
from tests.service.documents.conftest import Rewrite, same, sides

PO = """# comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"

#, c-format
msgid "the \\"house\\"\\n"
msgstr   ""

#, fuzzy
#| msgid "old"
msgid "car"
msgstr "auto ?"

msgctxt "menu"
msgid ""
"long "
"text"
msgstr "fait"

msgid "a file"
msgid_plural "some files"
msgstr[0] ""
msgstr[1] ""

#~ msgid "dead"
#~ msgstr "mort"
"""
XLIFF = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="en">
 <trans-unit id="1">
  <source>the <g id="1">house</g> is <x id="2"/> red</source>
 </trans-unit>
 <trans-unit id="2"><source>new</source><target state="new">new</target></trans-unit>
 <trans-unit id="3"><source>dog</source><target>chien</target></trans-unit>
 <group translate="no"><trans-unit id="4"><source>cat</source></trans-unit></group>
 <trans-unit id="5"><source>a <ph id="1">&lt;b></ph> b</source><target/></trans-unit>
</file></xliff>"""
ANDROID = (
    '<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2"><string name="a">it\\\'s <b>a</b> "cat"</string>'
    '<string name="b" translatable="false">no</string><string name="c">@string/a</string>'
    '<string name="d">see <xliff:g id="x">%1$s</xliff:g> now</string><plurals name="p"><item quantity="one">file</item>'
    '</plurals><string name="q"> "a  <b>b</b>" </string><item>no</item></resources>'
)
TTML = '<tt xml:lang="en" xmlns="tt"><metadata>no</metadata><p begin="0s">one<br/><span>two</span></p></tt>'
CASES: dict[str, tuple[str, ...]] = {
    "android": (
        "a.xml",
        ANDROID,
        ANDROID.replace("it\\'s", "IT\\'S")
        .replace('>a</b> "cat"', '>A</b> \\"CAT\\"')
        .replace(">see", ">SEE")
        .replace("> now", "> NOW")
        .replace("file<", "FILE<")
        .replace('"a  <b>b<', '"A  <b>B<'),
    ),
    "android with sections": (
        "a.xml",
        "<resources><string name='a'><![CDATA[«see» <a href='x'>«this»</a> «& so»]]></string><string name='b'>«a»"
        "<![CDATA[<b>]]>«b»<![CDATA[</b>]]></string><string name='c'>\"<![CDATA[«a»  <b>«b»</b>]]>\"</string>"
        "</resources>",
    ),
    "resx": (
        "a.resx",
        '<root><resheader name="version"><value>two</value></resheader><data name="a"><value>«one»\n'
        "«two»</value><comment>no</comment></data><data name='b' type='x'><value>no</value></data></root>",
    ),
    "stringsdict": (
        "a.stringsdict",
        '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">\n'
        "<plist><dict><key>x</key><string>%#@a@</string><key>one</key><string>«a file»</string>"
        "</dict></plist>",
    ),
    "ttml": ("a.ttml", TTML, TTML.replace("one", "ONE").replace("two", "TWO").replace('"en"', '"fr"')),
    "fluent": (
        "a.ftl",
        "# no\na = <i></i> «one» { $x } <b>«one»</b>.\n    .title = «one»\n-term = «one»\n"
        "n = { $count ->\n    [one] «one»\n   *[other] «one» { $count }\n  }\n"
        'link =\n    «one»:\n    1. <a href="{ $x }">«one»</a>\n    2. «one»\n',
    ),
    "arb": ("a.arb", '{"@@locale": "en", "a": "«hello»", "@a": {"description": "no", "x": {"b": "no"}}, "c": "«two»"}'),
    "properties": (
        "a.properties",
        "# no\na.b = one \\\n    two\\: x\nc:caf\\u00e9\n! no\nempty=\nd=a\n",
        "# no\na.b = ONE TWO: X\nc:CAF\\u00c9\n! no\nempty=\nd=A\n",
    ),
    "csv with a separator": ("a.csv", "sep=;\r\n«a,b;c»\r\n"),
    "text": ("a.txt", "«first line»\r\n\n  - «item»\n«last»"),
    "text with markup characters": ("a.txt", "«a < b & c» <b>«d»</b>"),
    "json": (
        "a.json",
        '{"a": "x <b>y</b>",  "n": [1, 2.50, null, "true"], "k\\"": {"m": "{n, plural, one {a}"}, "e": "é\\n\\u00e9"}',
        '{"a": "X <b>Y</b>",  "n": [1, 2.50, null, "true"], "k\\"": {"m": "{n, plural, one {a}"}, "e": "É\\nÉ"}',
    ),
    "json with cases": (
        "a.json",
        """{"a": "all {n, plural, offset:1 =0 {no {0}} other {<b>#</b> it''s '{0}' so}}."}""",
        """{"a": "{n, plural, offset:1 =0 {ALL NO {0}.} other {ALL <b>#</b> IT\u2019S '{0}' SO.}}"}""",
    ),
    "json with a date in cases": (
        "a.json",
        """{"a": "{n, plural, one {it's on {d, date, EEE 'the' d}} other {'{''}' s}}"}""",
        """{"a": "{n, plural, one {IT’S ON {D, DATE, EEE 'THE' D}} other {'{''}' S}}"}""",
    ),
    "json with broken cases": (
        "a.json",
        '{"a": "{n, plural, =0{no}, one{# a}}", "b": "{n, plural, one{# a}} b}", "c": "«d»"}',
    ),
    "yaml with cases in cases": (
        "a.yml",
        "a: '{x, select, y {it {n, plural, one {# b}}} z {}} d {n, plural, one {e}} f'\n",
        "a: '{x, select, y {{n, plural, one {IT # B}}} z {}}{n, plural, one { D E F}}'\n",
    ),
    "json with references": (
        "a.json",
        '{"a": "5&nbsp;«km» &amp; «don&#39;t»", "b": "&lt;b class=no&gt;«a»&lt;/b&gt;"}',
    ),
    "json with styles": ("a.json", '{"b": "btn btn-go", "c": "«a sign-in»"}'),
    "yaml with styles": (
        "a.yml",
        "a: flex text-center mb-4\nb: «a top-10 list»\nc: «use p-1 or m»-2\nd: «a self-start motor»\n",
    ),
    "strings": (
        "a.strings",
        '/* Title = "x"; */\n"title" = "the \\"cat\\"";\n// b\nkey.b = "%d cat\\\'s";',
        '/* Title = "x"; */\n"title" = "THE \\"CAT\\"";\n// b\nkey.b = "%D CAT\'S";',
    ),
    "yaml": (
        "a.yaml",
        "en:\r\n  a: see you # no\r\n  b: [1, true, \"it\\u0027s\", 'so']\r\n  c: |\r\n    one\r\n    two\r\n",
        "en:\r\n  a: SEE YOU # no\r\n  b: [1, true, \"IT'S\", 'SO']\r\n  c: |\r\n    ONE\r\n    TWO\r\n",
    ),
    "yaml with a folded text": ("a.yml", "d: >-\n  «fold\n  ed»\ne: «f»\ng: :no\n"),
    "yaml with anchors": (
        "a.yml",
        "a: &a\n  b: &b «c d»\n&k k: *k\ne:\n  <<: *a\n  f: [*b , &g !!str «h»]\n*b : *a\nl: &l # no\n  «m»\n",
    ),
    "yaml with anchors of blocks": ("a.yml", "a: &a |\n  «b»\n  «c»\nd: !!str >-\n  «e\n  f»\ng: *a\n"),
    "markdown with an anchor": ("a.md", "---\ntitle: &t «a»\ndescription: *t\n---\n«b»\n"),
    "csv": ("a.csv", 'id;«text»\r\n1;"«a; ""b»"""\r\n2;«c»\r\n3;TRUE\r\n'),
    "csv with spaces": ("a.csv", "«name, cc», id\n«ann», FR, 1\n«bob», DE, 2\n«cy», UK, 3\n"),
    "tsv": ("a.tsv", "id\t«text»\n1\t«a, b»\n"),
    "html": (
        "a.html",
        '<!doctype html><title>«t»</title><script>"<p>a"</script><p class=x>«a» <b>«b»</b>&nbsp;<p translate=no>c</p>',
    ),
    "webvtt": (
        "a.vtt",
        "WEBVTT\n\nNOTE\nno --> text\n\n00:01.000 --> 00:04.000 line:0\n«one two»,\n\n00:05.000 --> 00:09.000\n"
        "3 «a».\n",
    ),
    "sbv": ("a.sbv", "0:00:01.000,0:00:02.000\n«a cat».\n"),
    "po": (
        "a.po",
        PO,
        PO.replace("#, c-format", "#, fuzzy, c-format")
        .replace('msgid "a file"', '#, fuzzy\nmsgid "a file"')
        .replace('msgstr   ""', 'msgstr   "THE \\"HOUSE\\"\\n"')
        .replace('"auto ?"', '"CAR"')
        .replace('[0] ""', '[0] "A FILE"')
        .replace('[1] ""', '[1] "SOME FILES"'),
    ),
    "xliff 1.2": (
        "a.xlf",
        XLIFF,
        XLIFF.replace('"en">', '"en" target-language="fr">')
        .replace("red</source>", 'red</source>\n  <target>THE <g id="1">HOUSE</g> IS <x id="2"/> RED</target>')
        .replace('"new">new</target>', '"needs-review-translation">NEW</target>')
        .replace("<target/>", '<target>A <ph id="1">&lt;b></ph> B</target>'),
    ),
    "xliff 2": (
        "a.xliff",
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"><file id="f"><unit id="u">'
        '<segment><source>a <pc id="1">b</pc></source></segment></unit></file></xliff>',
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="fr"><file id="f">'
        '<unit id="u"><segment><source>a <pc id="1">b</pc></source><target>A <pc id="1">B</pc></target></segment>'
        "</unit></file></xliff>",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_only_texts_differ(case: str, rewrite: Rewrite) -> None:
    name, *texts = CASES[case]
    source, expected = sides(*texts)
    assert rewrite(name, source).decode() == expected
    if not case.startswith(("xliff", "po")):
        assert rewrite(name, source, same).decode() == source


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("name", "text"), [("a.txt", "«é a»\n"), ("a.ftl", "a = «é»\n"), ("a.json", '["«é»"]')])
def test_byte_order_marks_stay(name: str, text: str, encoding: str, rewrite: Rewrite) -> None:
    source, expected = sides(text)
    assert rewrite(name, source.encode(encoding)) == expected.encode(encoding)


def test_a_character_that_the_encoding_of_a_page_lacks_is_a_reference(rewrite: Rewrite) -> None:
    page = '<meta charset="iso-8859-1"><p>caf\xe9</p>'.encode("latin-1")
    assert rewrite("a.html", page, lambda html: html.replace("café", "œuvré")) == page.replace(b"caf", b"&#339;uvr")


def test_a_character_that_an_encoding_lacks_is_an_error(rewrite: Rewrite) -> None:
    po = 'msgid ""\nmsgstr "charset=ISO-8859-1\\n"\n\nmsgid "a"\nmsgstr ""\n'
    with pytest.raises(InvalidRequest, match=r"^file: the translation has 'œ', which ISO-8859-1 cannot write"):
        rewrite("a.po", po, lambda _: "œ")


def test_columns_of_a_table(rewrite: Rewrite) -> None:
    table = "id,name,text\n1,anna,house\n"
    assert rewrite("a.csv", table, columns=("text",)) == b"id,name,text\n1,anna,HOUSE\n"
    assert rewrite("a.csv", table, columns=("2", "3")) == b"id,NAME,TEXT\n1,ANNA,HOUSE\n"
    with pytest.raises(InvalidRequest, match=r"^columns: the table has no column price; it has id, name, text$"):
        rewrite("a.csv", table, columns=("price",))
    with pytest.raises(InvalidRequest, match=r"^columns: only csv and tsv files have columns$"):
        rewrite("a.txt", table, columns=("text",))


def test_codes_of_a_table_stay(rewrite: Rewrite) -> None:
    """Short words are codes only in a column with three others, and not among more words."""
    table = "id,Code,land,in,is,sum\n1,US,US,US,NO,PLN\n2,NO,Asia,FR,ON,HAT\n3,FR,FR,NO,UP,id\n4,DE,DE,,DE,m-2 w-full\n"
    rows = [f"5,,NO,{word},," for word in ("A", "B", "C")]
    written = (
        "id,code,land,in,is,sum\n1,US,US,US,no,PLN\n2,NO,asia,FR,on,hat\n3,FR,FR,no,up,id\n4,DE,DE,,DE,m-2 w-full\n"
    )
    assert rewrite("a.csv", table + "\n".join(rows), str.lower).decode() == written + "\n".join(
        row.replace(row[5:], row[5:].lower()) for row in rows
    )


def test_each_format_has_the_reader_that_its_row_names() -> None:
    assert all(each.reader for each in FORMATS.values())
