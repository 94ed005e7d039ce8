"""Plain texts: paragraphs of wrapped lines, columns, numbering."""

import pytest

from tests.service.documents.conftest import Rewrite, translated_in

WRAPPED = "The committee decided to\npostpone the meeting until\nnext Friday.\n\nWe are sorry for the late\nnotice.\n"
VERSES = "Roses are red in the garden\nViolets are blue in the sea\nSugar is sweet and you know\n"
QUOTED = "> He said that this is a quotation of a\n> mail that goes on in\n> this line.\n"
ITEMS = "- an item of a list that is long and goes\n  on here\n- a second one\n"


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        (
            WRAPPED,
            ["The committee decided to postpone the meeting until next Friday.", "We are sorry for the late notice."],
        ),
        (VERSES, VERSES.splitlines()),
        (QUOTED, ["He said that this is a quotation of a mail that goes on in this line."]),
        (ITEMS, ["an item of a list that is long and goes on here", "a second one"]),
        ("Name        City         Age\nAnna        London       12\n", ["Name", "City", "Age", "Anna", "London"]),
        ("Name\tOld age\n", ["Name", "Old age"]),
        (
            "I.  The first part\nK. Final report\n(b) part\n1.2. item\n",
            ["The first part", "Final report", "part", "item"],
        ),
        ("John Miller\n12 Main Street\n", ["John Miller", "12 Main Street"]),
    ],
)
def test_paragraphs(text: str, paragraphs: list[str], rewrite: Rewrite) -> None:
    assert translated_in("a.txt", text, rewrite) == paragraphs


def test_paragraphs_are_wrapped_to_the_width_they_had(rewrite: Rewrite) -> None:
    french = {"The": "Le comite a decide de reporter la reunion a vendredi prochain.", "We": "Desoles du retard."}
    written = rewrite("a.txt", WRAPPED, lambda html: french[html.split()[0]]).decode()
    assert written == "Le comite a decide de\nreporter la reunion a\nvendredi prochain.\n\nDesoles du retard.\n"
    assert rewrite("a.txt", QUOTED).decode() == QUOTED.upper().replace("GOES ON IN\n> THIS", "GOES ON IN THIS")


def test_columns_stay_where_there_is_room(rewrite: Rewrite) -> None:
    longer = rewrite("a.txt", "Name    City    Age\n", lambda html: html * 2).decode()
    assert longer == "NameName CityCity AgeAge\n"
    assert rewrite("a.txt", "Name    City    Age\n", lambda html: html[:3]).decode() == "Nam     Cit     Age\n"
