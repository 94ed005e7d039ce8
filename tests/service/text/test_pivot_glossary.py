"""Terms on their way through two models, without models: what stands for them in the text between."""

import tracemalloc

from service.text.glossary import NOTHING, Glossary
from service.text.pivot_glossary import halves
from service.text.segment import Term

GLOSSARY = Glossary({"cat": "micio", "black cat": "gatto nero", "tabby": "micio", "NASA": "ASE"})


def _between(text: str) -> str:
    """The text with the words that stand for its terms."""
    words = ""
    done = 0
    for term in halves(GLOSSARY).first.find(text):
        words += text[done : term.start] + (term.translation.upper() if term.capitals else term.translation)
        done = term.end
    return words + text[done:]


def test_each_translation_has_a_word_of_its_own() -> None:
    terms = [*halves(GLOSSARY).first.find("A cat, a black cat, a tabby, a dog.")]
    assert [(term.start, term.end) for term in terms] == [(2, 5), (9, 18), (22, 27)]
    assert all(term.is_halfway and term.has_stand_in and not term.is_copy for term in terms)
    cat, black_cat, tabby = (term.translation for term in terms)
    assert cat == tabby != black_cat
    assert cat.islower()
    assert cat.isalpha()


def test_they_are_found_again_side_by_side_and_with_their_capitals() -> None:
    between = _between("cat NASA CAT black cat").replace(" ", "")
    assert [*halves(GLOSSARY).second.find(between)] == [
        Term(0, 3, "micio", is_halfway=True),
        Term(3, 6, "ASE", is_halfway=True),
        Term(6, 9, "micio", capitals=True, is_halfway=True),
        Term(9, 12, "gatto nero", is_halfway=True),
    ]


def test_a_capital_at_the_beginning_is_no_other_word() -> None:
    word = _between("cat")
    [term] = halves(GLOSSARY).second.find(word[:1].upper() + word[1:])
    assert (term.translation, term.capitals) == ("micio", False)


def test_what_stands_for_nothing_is_none() -> None:
    assert not [*halves(GLOSSARY).second.find("\U0001044f" * 3 + " cat \U00010428")]
    assert not [*halves(NOTHING).second.find(_between("cat"))]


def test_as_many_as_a_glossary_may_have() -> None:
    glossary = Glossary({f"t{number}": f"w{number}" for number in range(10_000)})
    first, second = halves(glossary)
    [term] = first.find("t9999")
    [again] = second.find(term.translation)
    assert again.translation == "w9999"


def test_nothing_is_made_of_each_entry_for_each_request() -> None:
    """The event loop would wait for it."""
    glossary = Glossary({f"t{number}": f"w{number}" for number in range(10_000)})
    tracemalloc.start()
    try:
        halves(glossary)
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_each_of_them_is_found_again() -> None:
    first, second = halves(Glossary({f"t{number}": f"w{number}" for number in range(10_000)}))
    text = " ".join(f"t{number}" for number in range(10_000))
    words = [term.translation for term in first.find(text)]
    assert [term.translation for term in second.find(" ".join(words))] == [f"w{number}" for number in range(10_000)]
