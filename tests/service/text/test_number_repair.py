"""Number repair: a translation's numbers have the values of the sentence's."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.number_repair import NumberRepair
from service.text.segment import Aligned


def _repaired(sentence: str, parts: list[str]) -> list[list[Aligned]]:
    """Return what is written after each part, and at the end."""
    repair = NumberRepair(sentence, ("en", "fr"))
    return [*([*repair.push(Aligned(part, place))] for place, part in enumerate(parts)), [*repair.flush()]]


def _text(written: list[list[Aligned]]) -> str:
    return "".join(part.text for parts in written for part in parts)


@pytest.mark.parametrize(
    ("sentence", "translated", "expected"),
    [
        ("Call 555-1234", "Appelle 5577234", "Appelle 555-1234"),
        ("Their number is 58,583,767.", "Leur numéro est 583 767.", "Leur numéro est 58,583,767."),
        ("It was 29,752,891.", "C'était 29 752 891,891.", "C'était 29,752,891."),
        ("From 58-60 to 58880", "De 5860 à 588880", "De 5860 à 58880"),
        ("At 7:50:40", "À 7 :7 :50:40", "À 7:50:40"),
        ("It costs $938.20.", "Cela coûte 9338,20 $.", "Cela coûte 938.20 $."),
        ("Call 08 11 00 06 95 now", "Appelez le 08 11 06 95 maintenant", "Appelez le 08 11 00 06 95 maintenant"),
        ("٥٨٥٨٣ قطة", "58853 chats", "٥٨٥٨٣ chats"),
        # Wrong separators become those of the language.
        ("$1,234.56 and 12,345.67", "$1,234,56 et 12 345.67", "$1\u202f234,56 et 12\u202f345,67"),
        ("It is 1,234.5 km.", "C'est 12 345 km.", "C'est 1\u202f234,5 km."),
        ("It is 10.5 km.", "C'est 1,05 km.", "C'est 10,5 km."),
        ("It is 1234567.5 km.", "C'est 1.234.567,5 km.", "C'est 1234567,5 km."),
        ("2,000 cats", "2,000 chats", "2\u202f000 chats"),
        ("2,000 cats", "2.000 chats", "2\u202f000 chats"),
        ("Q3 2021, Windows 11 2023", "T3,2021, Windows 11,2023", "T3 2021, Windows 11 2023"),
    ],
)
def test_a_changed_number_is_written_as_in_the_sentence(sentence: str, translated: str, expected: str) -> None:
    for parts in ([translated], [*translated]):
        assert _text(_repaired(sentence, parts)) == expected


@pytest.mark.parametrize(
    ("sentence", "translated", "expected"),
    [
        # Both separators say which is which, in every language.
        ("Total : 12.345,67 €", "Total: €12.345.67", "Total: €12,345.67"),
        ("1,234,567.89 en tout", "1.234.567.89 in all", "1,234,567.89 in all"),
        ("Code : 0 800 123 456", "Code: 0,800 123,456", "Code: 0 800 123 456"),
        ("0,5 mm, 0 500 x", "0.5 mm, 0 500 x", "0.5 mm, 0 500 x"),
    ],
)
def test_numbers_of_other_formats(sentence: str, translated: str, expected: str) -> None:
    repair = NumberRepair(sentence, ("fr", "en"))
    assert _text([[*repair.push(Aligned(translated, None))], [*repair.flush()]]) == expected


def test_a_language_whose_numbers_are_unknown_keeps_them() -> None:
    for languages in (("en", "xx"), ("", ""), ("xx", "fr")):
        repair = NumberRepair("It is 1,234.56.", languages)
        assert _text([[*repair.push(Aligned("1,234,56", None))], [*repair.flush()]]) == "1,234,56"


@pytest.mark.parametrize(
    ("sentence", "translated"),
    [
        ("It is 1,234,567.5 now.", "C'est 1 234 567,5 maintenant."),
        ("In 2000, 250 came.", "En 2000 250 sont venus."),
        ("In 2000 there were 250 of 777.", "250 2000, 777."),
        ("On 2026-04-05 at 10:30", "Le 5 avril 2026 à 10 h 30"),
        ("At 3:45 pm", "À 15 h 45"),
        ("9/11", "le 11 septembre"),
        ("Two of 25 cats", "2 chats sur 25"),
        ("two hundred of 100", "200 de 100"),
        ("有1.2亿人", "120 million people"),
        ("1.2 million people", "120万人"),
        ("٥٨٥٨٣ قطة", "58583 chats"),
        ("No number", "Pas de numéro 12345"),
        ("5 to 10 minutes, not 20000", "5-10 分钟, 20000"),
        ("2020年5月3日", "5/3/2020"),
        ("July 4, 2021, 12345 cats", "4/7/2021, 12345 chats"),
        ("On 07/04/2021", "4.7.2021"),
        ("Between 20 and 20000", "20-20000"),
        ("0.12345 of .54321", "0,12345 de 0,54321"),
        ("12.5K people, 1250.5 m", "12 500"),
        ("At 1:15 pm", "13:15"),
        ("15 cents of 2500", "0,15 de 2501"),
        ("It is 1,234.56 and 12.50", "C'est 1 234,56 et 12,50"),
        ("It is 1,234.56 and 12,34,567.5", "C'est 1'234,56 et 1234567,5"),
        ("It is 1,234.56", "C'est 1,234.56"),
        ("1.25 of 12.5 of 1.5.2020", "1,25 de 12,5 de 1.5.2020"),
        ("1.25 billion people of 125", "12,5 de 125"),
        ("192.168.10.1", "192,168,10,1"),
        ("Python 3.10 of 3.125", "Python 3.10 de 3,125"),
    ],
)
def test_a_number_with_the_same_value_or_similar_to_none_stays(sentence: str, translated: str) -> None:
    for parts in ([translated], [*translated]):
        assert _text(_repaired(sentence, parts)) == translated


@given(
    number=st.from_regex(r"[1-9]\d{2,8}(?:[-:. ]\d{2,4}){0,2}", fullmatch=True),
    translated=st.text(st.sampled_from("0123456789 .,:-/abé"), max_size=40),
    cuts=st.lists(st.integers(0, 40)),
)
def test_the_parts_of_a_translation_make_no_difference(number: str, translated: str, cuts: list[int]) -> None:
    places = sorted({0, len(translated), *(min(cut, len(translated)) for cut in cuts)})
    parts = [translated[start:end] for start, end in pairwise(places)]
    assert _text(_repaired(f"It is {number}.", parts)) == _text(_repaired(f"It is {number}.", [translated]))


def test_only_a_number_is_held_back() -> None:
    written = _repaired("It is 58,583 now", ["C'est", " 58", " 58", "5", " maintenant", " 58 583"])
    assert [_text([each]) for each in written] == ["C'est", " ", "", "", "58,583 maintenant", " ", "58 583"]


def test_each_part_keeps_its_place() -> None:
    written = _repaired("It is 58,583 now", ["a 5", "8", "585 b"])
    assert [*written[0], *written[1], *written[2]] == [("a ", 0), ("58,583", 0), (" b", 2)]


def test_a_number_without_an_end_is_not_held_for_ever() -> None:
    written = _repaired("It is 58,583 now", ["7"] * 1000)
    assert max(sum(not parts for parts in written[start : start + 110]) for start in range(0, 800, 110)) < 110
    assert _text(written) == "7" * 1000


def test_a_zero_that_only_the_model_reads_is_not_written() -> None:
    repair = NumberRepair("From 09 h to 07:45 on 03/05", ("en", "fr"), "From 9 am to 7:45 am on 03/05")
    parts = [Aligned(text, None) for text in ("De", " 0", "9", " h à", " 07", " h 45", " le 03/05", ".")]
    written = "".join(each.text for part in parts for each in repair.push(part))
    written += "".join(each.text for each in repair.flush())
    assert written == "De 9 h à 7 h 45 le 03/05."
