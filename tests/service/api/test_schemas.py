"""The options of a request, with and without defaults; and the names of languages."""

import gc
import json
import sys
from contextlib import suppress

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from service.api.deepl.glossaries import GlossaryRequest
from service.api.deepl.translate import DeepLRequest
from service.api.documents import FileForm
from service.api.languages import DetectRequest, language_name
from service.api.request_body import Word, has_more_values
from service.api.translate_request import TranslateRequest
from service.text.glossary import MAX_ENTRIES


@pytest.mark.parametrize(
    ("alternatives", "limit", "size"), [(0, 16, 1), (1, 16, 4), (5, 16, 6), (1, 3, 3), (1, 2, 2), (2, 2, 3), (1, 1, 2)]
)
def test_the_default_beam_is_as_wide_as_the_limit_allows(alternatives: int, limit: int, size: int) -> None:
    """The translator refuses more alternatives than the widest beam."""
    request = TranslateRequest(q="Yes.", source="en", target="fr", alternatives=alternatives)
    assert request.options(max_beam_size=limit).beam.size == size


@pytest.mark.parametrize("columns", ["name, 3", ["name", "3"], ["name,", " 3"]])
def test_columns_are_a_field_with_commas_or_a_field_for_each(columns: str | list[str]) -> None:
    form = FileForm.model_validate({"target": "fr", "columns": columns})
    assert form.wanted().options.columns == ("name", "3")


_WRONG = {
    "beam_size": (True, 2.0, "2"),
    "temperature": (True,),
    "timeout_seconds": (False,),
    "alternatives": (True, 1.0, "one", "-1", "16"),
    "secret": (1,),
    "stream": (1, "true"),
    "scores": (0,),
    "q": (1, [True]),
    "source": (["en"],),
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in _WRONG.items() for value in values])
def test_json_says_what_it_means(field: str, value: object) -> None:
    """A bool is no number, a number is no text."""
    body = {"q": "Hi.", "source": "en", "target": "fr", field: value}
    with pytest.raises(ValidationError, match=field):
        TranslateRequest.model_validate_json(json.dumps(body), strict=True)


@pytest.mark.parametrize("model", [TranslateRequest, DetectRequest])
def test_a_few_unknown_fields_are_named_and_many_are_one_problem(model: type[BaseModel]) -> None:
    """Each would be a problem of its own: hundreds of bytes for five of the request."""

    def problems(unknown: int) -> list[str]:
        body = {"q": "Hi.", "source": "en", "target": "fr"} | {f"f{i}": 1 for i in range(unknown)}
        with pytest.raises(ValidationError) as caught:
            model.model_validate_json(json.dumps(body), strict=True)
        return [each["msg"] for each in caught.value.errors() if each["loc"][:1] not in (("source",), ("target",))]

    assert problems(3) == ["Extra inputs are not permitted"] * 3
    assert problems(1000) == [f"more than {2 * len(model.model_fields)} fields"]


def test_a_glossary_is_counted_before_its_words_are_looked_at() -> None:
    body = {"q": "Hi.", "source": "en", "target": "fr", "glossary": {str(i): " " for i in range(MAX_ENTRIES + 1)}}
    with pytest.raises(ValidationError) as caught:
        TranslateRequest.model_validate_json(json.dumps(body), strict=True)
    [problem] = caught.value.errors()
    assert problem["msg"] == f"more than {MAX_ENTRIES} entries"


def test_entries_in_a_form_are_counted_before_they_are_built() -> None:
    form = {"q": "Hi.", "source": "en", "target": "fr", "glossary": '{"":""' + ',"":""' * MAX_ENTRIES + "}"}
    with pytest.raises(ValidationError, match=f"more than {MAX_ENTRIES} entries"):
        TranslateRequest.model_validate(form)


@pytest.mark.parametrize(
    ("value", "values"),
    [
        (["a,b", "c"], 2),
        ([1, 2, 3], 3),
        ([[1], [2], [3]], 6),
        ({"a": {"a": {"a": "["}}}, 3),
        ({"a": "b", "c,": ",d"}, 2),
        (['",",",', "\\", ",", "\\\\", '\\"', ","], 6),
        ({"q": ['Yes, "so, to [say]", he said.\n' * 1000] * 50, "source": "en", "target": "fr"}, 53),
    ],
)
def test_values_are_counted_outside_of_strings(value: object, values: int) -> None:
    body = json.dumps(value).encode()
    assert not has_more_values(body, values)
    assert has_more_values(body, values - 1)
    # The error of an unfinished text names the real problem: the body is no JSON.
    assert not has_more_values(b'{"q": "' + b"word, " * 20_000, MAX_ENTRIES)


@pytest.mark.parametrize("model", [TranslateRequest, DeepLRequest, GlossaryRequest])
def test_nothing_of_a_request_stays(model: type[BaseModel]) -> None:
    """Pydantic's cache is for names and values that come again."""

    def parse(start: int) -> None:
        for number in range(start, start + 500):
            body = {"q": f"Text {number}.", "glossary": json.dumps({f"a{number}": f"b{number}"}), f"f{number}": 1}
            body |= {
                "text": f"Text {number}.",
                "target_lang": "FR",
                "glossary_id": f"g{number}",
                "name": f"n{number}",
                "entries": f"e{number}",
            }
            with suppress(ValidationError):
                model.model_validate_json(json.dumps(body), strict=True)
            with suppress(ValidationError):
                model.model_validate(body)

    parse(0)
    gc.collect()
    before = sys.getallocatedblocks()
    parse(1000)
    gc.collect()
    assert sys.getallocatedblocks() - before < 100


def test_json_may_say_what_libretranslate_takes() -> None:
    body = {"q": "Hi.", "source": "en", "target": "fr", "alternatives": "3", "format": "", "secret": "x"}
    request = TranslateRequest.model_validate_json(json.dumps(body), strict=True)
    options = request.options(max_beam_size=16)
    assert (options.beam.alternatives, options.is_html) == (3, False)
    assert request.name() == request.model_copy(update={"secret": None}).name()


@pytest.mark.parametrize("word", ["1", "0", "on", "yes", "True", ""])
def test_in_a_form_a_flag_is_true_or_false(word: str) -> None:
    form = {"q": "Hi.", "source": "en", "target": "fr"}
    assert TranslateRequest.model_validate({**form, "stream": "true"}).stream
    assert not TranslateRequest.model_validate({**form, "stream": "false"}).stream
    with pytest.raises(ValidationError, match="must be true or false"):
        TranslateRequest.model_validate({**form, "stream": word})


def test_a_blank_term_is_what_splits_into_nothing() -> None:
    word = TypeAdapter(Word)
    for character in map(chr, range(sys.maxunicode + 1)):
        if character.isspace():
            with pytest.raises(ValidationError):
                word.validate_python(character * 2)
        elif not "\ud800" <= character <= "\udfff":
            word.validate_python(character)
    with pytest.raises(ValidationError):
        word.validate_python("\ud800")


@pytest.mark.parametrize(("fields", "has_seed"), [({}, False), ({"seed": 0}, True), ({"seed": 7}, True)])
def test_a_seed_that_is_the_default_may_have_been_given(fields: dict[str, int], has_seed: bool) -> None:
    body = {"q": "Hi.", "source": "en", "target": "fr", "temperature": 0.5, **fields}
    assert TranslateRequest.model_validate_json(json.dumps(body), strict=True).options(4).has_seed == has_seed
    form = {name: str(value) for name, value in body.items()}
    assert TranslateRequest.model_validate(form).options(4).has_seed == has_seed


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("fr", "French"),
        ("zh-Hant", "Chinese (Traditional)"),
        ("sr-Latn", "Serbian (Latin)"),
        ("EN-GB", "English (United Kingdom)"),
        # No languages, and what is none that Babel can read.
        ("xx", "xx"),
        ("zt", "zt"),
        ("en-a1", "en-a1"),
    ],
)
def test_a_language_has_its_name_or_its_code(code: str, name: str) -> None:
    assert language_name(code) == name
