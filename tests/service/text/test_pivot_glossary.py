"""Glossary terms through two models, tested without models: their code words in the pivot text."""

from service.text.glossary import EMPTY_GLOSSARY, Glossary
from service.text.pivot_glossary import pivot_finders
from service.text.segment import Term

GLOSSARY = Glossary({"cat": "micio", "black cat": "gatto nero", "tabby": "micio", "NASA": "ASE"})
FIND_TERMS, FIND_CODE_WORDS = pivot_finders(GLOSSARY)


def _pivot_text(text: str) -> str:
    """Replace the terms of a text by their code words."""
    words = ""
    done = 0
    for term in FIND_TERMS(text, [0]):
        words += text[done : term.start] + (term.translation.upper() if term.capitals else term.translation)
        done = term.end
    return words + text[done:]


def test_each_translation_has_its_own_code_word() -> None:
    terms = [*FIND_TERMS("A cat, a black cat, a tabby, a dog.", [0])]
    assert [(term.start, term.end) for term in terms] == [(2, 5), (9, 18), (22, 27)]
    assert all(term.as_placeholder and term.has_placeholder and not term.is_copy for term in terms)
    cat, black_cat, tabby = (term.translation for term in terms)
    assert cat == tabby != black_cat
    assert cat.islower()
    assert cat.isalpha()


def test_code_words_are_found_side_by_side_and_with_their_capitals() -> None:
    between = _pivot_text("cat NASA CAT black cat").replace(" ", "")
    assert [*FIND_CODE_WORDS(between, [0])] == [
        Term(0, 3, "micio", as_placeholder=True),
        Term(3, 6, "ASE", as_placeholder=True),
        Term(6, 9, "micio", capitals=True, as_placeholder=True),
        Term(9, 12, "gatto nero", as_placeholder=True),
    ]


def test_a_first_capital_does_not_change_the_code_word() -> None:
    word = _pivot_text("cat")
    [term] = FIND_CODE_WORDS(word[:1].upper() + word[1:], [0])
    assert (term.translation, term.capitals) == ("micio", False)


def test_unknown_code_words_are_not_found() -> None:
    assert not [*FIND_CODE_WORDS("\U0001044f" * 3 + " cat \U00010428", [0])]
    assert not [*pivot_finders(EMPTY_GLOSSARY)[1](_pivot_text("cat"), [0])]


def test_each_code_word_is_found_again() -> None:
    find_terms, find_code_words = pivot_finders(Glossary({f"t{number}": f"w{number}" for number in range(10_000)}))
    text = " ".join(f"t{number}" for number in range(10_000))
    words = [term.translation for term in find_terms(text, [0])]
    found = [term.translation for term in find_code_words(" ".join(words), [0])]
    assert found == [f"w{number}" for number in range(10_000)]
