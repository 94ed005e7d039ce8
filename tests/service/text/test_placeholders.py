"""Copied parts (URLs, tags, emoji and the like) are found whole, and nothing else is."""

import pytest

from service.text.placeholders import find_verbatim


@pytest.mark.parametrize(
    "verbatim",
    """https://example.org/a?b=1&c=2
    www.example.org
    mailto:a@b.org
    ftp://x.y/z_(w)
    docs.python.org/3/library
    example.com
    anna.berg+x@mail.example.org
    {name}
    {{ user.name }}
    ${x}
    {}
    {0:.2f}
    %s
    %(count)d
    %1$s
    %.2f
    $HOME
    %APPDATA%
    __NAME__
    [NAME]
    <br/>
    </b>
    <a href="x y">
    `a b`
    @anna_b
    #summer2024
    👩‍🚀
    🇫🇷
    ❤️
    ₹
    ¥
    5½
    1,250 ¾
    ⅛
    x ≤ 5
    3 × 4
    ∞
    m²
    CO₂
    H₂O""".splitlines(),
)
def test_a_copied_part_is_found_among_words(verbatim: str) -> None:
    verbatim = verbatim.strip()
    for text in (f"See {verbatim} now", f"({verbatim})", f"{verbatim}, and", verbatim):
        assert [text[start:end] for start, end in find_verbatim(text)] == [verbatim]


@pytest.mark.parametrize(
    "verbatim",
    """ab://c
    www.host.xyz
    mailto:nobody
    a@b.xyz
    <% x %>
    %s
    $HOME
    __NAME__
    [NAME]
    `a`
    @anna
    #summer""".split("\n    ")
    + [f"host.{domain}" for domain in ("com", "org", "net", "edu", "gov", "info", "io", "eu", "de", "fr", "uk")],
)
def test_one_sign_of_a_copied_part_is_enough(verbatim: str) -> None:
    text = f"See {verbatim} now"
    assert [text[start:end] for start, end in find_verbatim(text)] == [verbatim]


@pytest.mark.parametrize(
    "text",
    [
        "100 % sure",
        "50%des",
        "a < b > c",
        "costs $5 or 5$, €5 or £5",
        "e.g. this",
        "a word¹ with a note",
        "2 + 2 = 4",
        "It is late.it seems",
        "Mr.Smith",
        "#1 of 3",
        "[sic] (or)",
        "don't",
        "I, and you; so: what?",
        "3:45 - 4:00",
        "the end...",
        "f(x) = y",
    ],
)
def test_words_and_numbers_are_not_copied(text: str) -> None:
    assert not find_verbatim(text)


def test_neighbours_are_merged_and_final_punctuation_is_not_part_of_a_url() -> None:
    text = "Hi 😀 🎉 <b>{x}, see https://a.org/x_(y). (www.b.org)"
    found = [text[start:end] for start, end in find_verbatim(text)]
    assert found == ["😀 🎉 <b>{x}", "https://a.org/x_(y)", "www.b.org"]
