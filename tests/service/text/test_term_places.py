"""Which words of a translation translate a term, and which depend on it."""

import pytest

from service.text.term_places import agree, dependent_word, find_place, find_written, words

TEXTS = ["", "Envoie", "-", "moi", " un", " e", "-", "mail", ".", ""]


def test_words_have_the_marks_before_them_and_the_apostrophes_behind_them() -> None:
    assert [word.text for word in words(TEXTS)] == ["Envoie", "-", "moi", "un", "e", "-", "mail", "."]
    found = words(["", "L", "'", "arbre", "", " Vert", "的", "树"])
    assert [tuple(word) for word in found] == [
        (0, 3, "L'"),
        (3, 4, "arbre"),
        (4, 6, "Vert"),
        (6, 7, "的"),
        (7, 8, "树"),
    ]


@pytest.mark.parametrize(
    ("texts", "shares", "language", "expected"),
    [
        (["Le", " chat", " dort", "."], [0.3, 0.8, 0.1, 0.0], "fr", " chat"),
        (TEXTS, [0.3, 0.3, 0, 0, 0.4, 0.8, 0.5, 0.3, 0, 0], "fr", " e-mail"),
        (["la", " pomme", " de", " terre"], [0.7, 0.8, 0.1, 0.6], "fr", " pomme de terre"),
        (["cause", " of", " the", " accident"], [0.5, 0.2, 0.5, 0.8], "en", " accident"),
        (["Le", " chat"], [0.1, 0.1], "fr", None),
        ([], [], "fr", None),
    ],
)
def test_the_place_of_a_term(texts: list[str], shares: list[float], language: str, expected: str | None) -> None:
    place = find_place(words(texts), shares, language)
    assert (place and "".join(texts[place.start : place.end])) == expected


@pytest.mark.parametrize(
    ("translation", "expected"),
    [("chat", " chats"), ("chats noirs", " chats noirs"), ("chatte", None), ("NOIR", " noirs"), ("château", None)],
)
def test_a_term_that_is_written_already_in_any_form(translation: str, expected: str | None) -> None:
    texts = [" deux", " chats", " noirs", " dorment"]
    place = find_written(words(texts), [0.0, 0.8, 0.5, 0.0], translation)
    assert (place and "".join(texts[place.start : place.end])) == expected
    assert find_written(words(texts), [0.0, 0.0, 0.0, 0.8], translation) is None


@pytest.mark.parametrize(
    ("before", "term", "language", "expected"),
    [
        ("Je vois un", "chatte", "fr", ("un", ["un ", "une ", "des "])),
        ("L'", "merle", "fr", ("L'", ["Le ", "La ", "Les "])),
        ("Le", "animal", "fr", ("Le", ["L'", "Les "])),
        ("près de la", "hutte", "fr", ("de la", ["du ", "de la ", "de l'", "des "])),
        ("Ma", "épouse", "fr", ("Ma", ["Mon ", "Mes "])),
        ("Je vois un", "un vieux matou", "fr", ("un", [""])),
        ("I see a", "owl", "en-GB", ("a", ["a ", "an "])),
        ("Il vola", "merle", "fr", ("", [""])),
        ("Ich sehe die", "Katze", "xx", ("", [""])),
    ],
)
def test_the_word_before_a_term(before: str, term: str, language: str, expected: tuple[str, list[str]]) -> None:
    assert dependent_word(before, term, language) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("est belle .", "est beau .", False),
        ("est blanche .", "est blanc .", True),
        ("a-t elle", "a-t il", True),
        ("bien nourris", "nourris", False),
        ("de X", "ch X", False),
    ],
)
def test_other_forms_of_the_same_words_agree(old: str, new: str, expected: bool) -> None:
    assert agree(old.split(), new.split()) is expected
