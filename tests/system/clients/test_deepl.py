"""DeepL's own client, unmodified."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import deepl
import httpx
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries

from tests.system.conftest import Server, run_server


@pytest.fixture
def deepl_client(server: Server) -> Iterator[deepl.DeepLClient]:
    with closing(deepl.DeepLClient("any key", server_url=server.url)) as client:
        yield client


def test_deepl_translates_one_text_and_several(deepl_client: deepl.DeepLClient) -> None:
    one = deepl_client.translate_text("I see a cat.", source_lang="EN", target_lang="FR")
    assert isinstance(one, deepl.TextResult)
    assert (one.text, one.detected_source_lang, one.billed_characters) == ("Je vois un chat.", "EN", 12)
    detected = deepl_client.translate_text("The <b>black</b> cat.", target_lang="FR", tag_handling="html")
    assert isinstance(detected, deepl.TextResult)
    assert (detected.text, detected.detected_source_lang) == ("Le chat <b>noir</b>.", "EN")
    already = deepl_client.translate_text("Où est la gare ? J'ai perdu ma clé.", target_lang="FR")
    assert isinstance(already, deepl.TextResult)
    assert (already.text, already.detected_source_lang) == ("Où est la gare ? J'ai perdu ma clé.", "FR")
    several = deepl_client.translate_text(
        ["Yes.", "", "42"], source_lang="en", target_lang="fr", formality="prefer_more"
    )
    assert isinstance(several, list)
    assert [each.text for each in several] == ["Oui.", "", "42"]


def test_deepl_translates_xml(deepl_client: deepl.DeepLClient) -> None:
    """The second request is of the kind that Weblate sends."""
    document = "<doc><title>Yes.</title><par>I see a <b>black</b> cat. No.</par></doc>"
    placeholders = 'Please open <x id="7"></x> now.'
    for text, options, expected in (
        (document, {}, "<doc><title>Oui.</title><par>Je vois un chat <b>noir</b>. Non.</par></doc>"),
        (placeholders, {"ignore_tags": ["x"]}, '<x id="7"></x>'),
        ("<l>Yes.</l><l>No.</l>", {"outline_detection": False, "splitting_tags": "l"}, "<l>Oui.</l><l>Non.</l>"),
    ):
        result = deepl_client.translate_text(
            text,
            source_lang="EN",
            target_lang="FR",
            tag_handling="xml",
            **options,
        )
        assert isinstance(result, deepl.TextResult)
        assert expected in result.text
    with pytest.raises(deepl.DeepLException, match="text: is not well-formed XML: <b> has no partner"):
        deepl_client.translate_text("<b>Yes.", target_lang="FR", tag_handling="xml", tag_handling_version="v2")


def test_deepl_s_options(deepl_client: deepl.DeepLClient) -> None:
    lines = "I see a\ncat."
    split, joined = (
        deepl_client.translate_text(lines, source_lang="EN", target_lang="FR", split_sentences=each)
        for each in (deepl.SplitSentences.ALL, deepl.SplitSentences.NO_NEWLINES)
    )
    assert isinstance(split, deepl.TextResult)
    assert isinstance(joined, deepl.TextResult)
    assert ("\n" in split.text, joined.text) == (True, "Je vois un chat.")
    for requested, used in (
        ("latency_optimized", "latency_optimized"),
        ("prefer_quality_optimized", "quality_optimized"),
    ):
        result = deepl_client.translate_text(
            "Yes.", target_lang="FR", model_type=requested, context="A question.", preserve_formatting=False
        )
        assert isinstance(result, deepl.TextResult)
        assert (result.text, result.model_type_used) == ("Oui.", used)


def test_deepl_s_old_clients_use_get(server: Server) -> None:
    fields = {"text": ["I see a cat.", "Yes."], "target_lang": "FR", "auth_key": "any", "preserve_formatting": "1"}
    answer = httpx.get(f"{server.url}/v2/translate", params=fields).json()
    assert [each["text"] for each in answer["translations"]] == ["Je vois un chat.", "Oui."]
    assert httpx.head(f"{server.url}/v2/translate", params=fields).status_code == 405


def test_deepl_s_languages(deepl_client: deepl.DeepLClient) -> None:
    [source] = deepl_client.get_source_languages()
    assert (source.code, source.name) == ("EN", "English")
    [target] = deepl_client.get_target_languages()
    assert (target.code, target.name, target.supports_formality) == ("FR", "French", False)


def test_deepl_s_usage_counts_characters(deepl_client: deepl.DeepLClient) -> None:
    before = deepl_client.get_usage().character.count
    deepl_client.translate_text(["I see a cat.", "Yes."], source_lang="EN", target_lang="FR")
    usage = deepl_client.get_usage()
    assert before is not None
    assert usage.character.count == before + 16
    assert not usage.any_limit_reached


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_lang": "XX"}, "target_lang: XX is not supported; available: FR"),
        ({"source_lang": "DE"}, "source_lang: DE is not supported; available: EN"),
        ({"source_lang": "auto"}, "source_lang: AUTO is not supported; available: EN"),
        ({"tag_handling": "markdown"}, "tag_handling: input should be 'html' or 'xml'"),
        ({"tag_handling": "html", "splitting_tags": "x"}, "splitting_tags: is available only with tag_handling xml"),
        ({"outline_detection": False}, "outline_detection: is available only with tag_handling xml"),
        ({"model_type": "best"}, "model_type: input should be "),
        ({"split_sentences": "2"}, "split_sentences: input should be "),
        ({"formality": "more"}, "formality: is not available for any language"),
    ],
)
def test_deepl_s_client_reports_what_is_wrong(
    deepl_client: deepl.DeepLClient, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(deepl.DeepLException, match=f"Bad request, message: {message}") as caught:
        deepl_client.translate_text("Yes.", **{"source_lang": "EN", "target_lang": "FR", **options})
    assert caught.value.http_status_code == 400


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two servers that share their glossaries."""
    directory = tmp_path_factory.mktemp("glossaries")
    flags = ("--glossaries", str(directory / "kept"))
    with run_server(directory / "log", *flags) as first, run_server(directory / "log2", *flags) as second:
        yield first, second


def test_deepl_s_glossaries(keeping: tuple[Server, Server]) -> None:
    first, second = (closing(deepl.DeepLClient("any key", server_url=each.url)) for each in keeping)
    with first as one, second as other:
        [pair] = one.get_glossary_languages()
        assert (pair.source_lang, pair.target_lang) == ("en", "fr")
        made = one.create_glossary("animals", "EN", "FR", {"cat": "matou", "black dog": "toutou noir"})
        again = one.create_glossary_from_csv("more", "EN", "FR", 'dog,"toutou, dit-on"\n')
        assert (made.name, made.ready, made.source_lang, made.target_lang) == ("animals", True, "EN", "FR")
        assert [each.glossary_id for each in other.list_glossaries()] == [made.glossary_id, again.glossary_id]
        assert other.get_glossary(made.glossary_id).entry_count == 2
        assert other.get_glossary_entries(made) == {"cat": "matou", "black dog": "toutou noir"}
        assert other.get_glossary_entries(again) == {"dog": "toutou, dit-on"}
        for client in (one, other):
            translated = client.translate_text(["A cat.", "My dog."], source_lang="EN", target_lang="FR", glossary=made)
            assert isinstance(translated, list)
            assert "matou" in translated[0].text
            assert "chien" in translated[1].text
        both = {"text": ["A cat. My dog."], "source_lang": "EN", "target_lang": "FR"}
        both |= {"glossary_ids": [made.glossary_id, again.glossary_id]}
        [merged] = httpx.post(f"{keeping[0].url}/v2/translate", json=both).json()["translations"]
        assert "matou" in merged["text"]
        assert "toutou, dit-on" in merged["text"]
        other.delete_glossary(made)
        for client in (one, other):
            with pytest.raises(deepl.GlossaryNotFoundException):
                client.get_glossary(made.glossary_id)
            with pytest.raises(deepl.DeepLException, match="glossary_id: no glossary has this id or name"):
                client.translate_text("A cat.", source_lang="EN", target_lang="FR", glossary=made.glossary_id)
        one.delete_glossary(again)
        assert one.list_glossaries() == []


def test_deepl_s_multilingual_glossaries(keeping: tuple[Server, Server]) -> None:
    cat = MultilingualGlossaryDictionaryEntries("EN", "FR", {"cat": "matou"})
    with closing(deepl.DeepLClient("any key", server_url=keeping[0].url)) as client:
        made = client.create_multilingual_glossary("many", [cat])
        assert [(each.source_lang, each.target_lang, each.entry_count) for each in made.dictionaries] == [
            ("EN", "FR", 1)
        ]
        assert [each.name for each in client.list_multilingual_glossaries()] == ["many"]
        for glossary in (made, made.glossary_id):
            result = client.translate_text("A cat.", source_lang="EN", target_lang="FR", glossary=glossary)
            assert isinstance(result, deepl.TextResult)
            assert "matou" in result.text
        more = MultilingualGlossaryDictionaryEntries("EN", "FR", {"dog": "toutou"})
        client.update_multilingual_glossary_dictionary(made, more)
        [found] = client.get_multilingual_glossary_entries(made, "EN", "FR").dictionaries
        # The client declares a dictionary and returns the text.
        assert str(found.entries) == "cat\tmatou\ndog\ttoutou"
        assert client.replace_multilingual_glossary_dictionary(made, more).entry_count == 1
        assert client.update_multilingual_glossary_name(made, "renamed").name == "renamed"
        assert client.get_multilingual_glossary(made.glossary_id).name == "renamed"
        assert client.list_glossaries() == []
        client.delete_multilingual_glossary(made)
        for missing in (client.get_multilingual_glossary, client.delete_multilingual_glossary):
            with pytest.raises(deepl.GlossaryNotFoundException):
                missing(made.glossary_id)


@pytest.mark.parametrize(
    ("dictionaries", "message"),
    [
        ([], "dictionaries: there are none"),
        ([("EN", "FR", "a\tb")] * 2, "dictionaries: there are several from en into fr"),
        ([("EN", "XX", "a\tb")], "target_lang: XX is not supported; available: FR"),
        ([("EN", "FR", "a")], "entries: line 1 is not a term and its translation"),
    ],
)
def test_a_multilingual_glossary_that_cannot_be_kept(
    keeping: tuple[Server, Server], dictionaries: list[tuple[str, str, str]], message: str
) -> None:
    url, names = f"{keeping[0].url}/v3/glossaries", ("source_lang", "target_lang", "entries")
    body = [dict(zip(names, each, strict=True)) | {"entries_format": "tsv"} for each in dictionaries]
    # DeepL's client for node sends a form.
    form = {f"dictionaries[{number}].{name}": each[name] for number, each in enumerate(body) for name in each}
    for refused in (
        httpx.post(url, json={"name": "a", "dictionaries": body}),
        *([httpx.post(url, data={"name": "a", **form})] if form else []),
    ):
        assert (refused.status_code, refused.json()["message"]) == (400, message)


def test_a_kept_glossary_is_known_by_its_name_too(keeping: tuple[Server, Server]) -> None:
    pets = {"name": "pets", "source_lang": "en", "target_lang": "fr", "entries_format": "tsv"}
    url = f"{keeping[0].url}/v2/glossaries"
    made = [httpx.post(url, json=pets | {"entries": entries}) for entries in ("cat\tmatou", "cat\tminou")]
    assert [each.status_code for each in made] == [201, 201]
    body = {"q": "I have a cat.", "source": "en", "target": "fr", "glossary_id": "pets"}
    ambiguous = httpx.post(f"{keeping[1].url}/translate", json=body)
    assert (ambiguous.status_code, ambiguous.json()["code"]) == (404, "unknown_glossary")
    httpx.delete(f"{url}/{made[0].json()['glossary_id']}").raise_for_status()
    assert "minou" in httpx.post(f"{keeping[1].url}/translate", json=body).json()["translatedText"]
    streamed = httpx.get(f"{keeping[1].url}/translate/stream", params=body).text
    assert "minou" in streamed
    for wrong, problem in (
        ({"glossary": {"cat": "x"}}, "glossary_id: the request has a glossary"),
        ({"source": "auto"}, "source: must be given with glossary_id"),
    ):
        refused = httpx.post(f"{keeping[1].url}/translate", json=body | wrong)
        assert refused.status_code == 400
        assert refused.json()["error"].startswith(problem)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"entries": "cat"}, "entries: line 1 is not a term and its translation"),
        ({"entries": "cat\tchat\n\ncat\tmatou"}, "entries: line 3 repeats a term: cat"),
        ({"entries": ""}, "entries: there are none"),
        ({"source_lang": "auto"}, "source_lang: auto is not supported; available: EN"),
        ({"target_lang": "DE"}, "target_lang: DE is not supported; available: FR"),
        ({"target_lang": "EN"}, "target_lang: must be another language than source_lang"),
        ({"entries_format": "xlsx"}, "entries_format: "),
    ],
)
def test_a_glossary_that_cannot_be_kept(keeping: tuple[Server, Server], wrong: dict[str, str], message: str) -> None:
    body = {"name": "a", "source_lang": "EN", "target_lang": "FR", "entries": "a\tb", "entries_format": "tsv", **wrong}
    refused = httpx.post(f"{keeping[0].url}/v2/glossaries", json=body)
    assert refused.status_code == 400
    assert refused.json()["message"].startswith(message)


def test_where_no_glossaries_are_kept_none_is_read(server: Server) -> None:
    refused = httpx.post(f"{server.url}/v2/glossaries", json={"entries": 1})
    assert refused.status_code == 400
    assert refused.json()["message"] == "glossaries: are not stored here: the server needs --glossaries DIRECTORY"


def test_deepl_s_errors_have_its_shape(server: Server) -> None:
    """Every kind of error: bad JSON, too much text, an unknown route, a wrong method."""
    url = f"{server.url}/v2/translate"
    body = {"text": ["Yes."], "target_lang": "FR", "source_lang": "EN"}
    answers = [
        (httpx.post(url, content=b"{", headers={"Content-Type": "application/json"}), 400),
        (httpx.post(url, json=body | {"text": 1}), 400),
        (httpx.post(url, json=body | {"text": ["x" * 50_001]}), 413),
        (httpx.post(f"{server.url}/v2/unknown", json=body), 404),
        (httpx.get(f"{server.url}/v3/unknown"), 404),
        (httpx.put(url), 405),
        (httpx.post(f"{server.url}/v2/write/rephrase", json=body), 404),
        (httpx.get(f"{server.url}/v2/languages?type=other"), 400),
    ]
    for answer, status in answers:
        assert answer.status_code == status
        assert set(answer.json()) == {"message"}
    for wrong, _ in answers[1:3]:
        assert wrong.json()["message"].startswith("text: ")


def test_deepl_s_forms_and_variants(server: Server) -> None:
    """DeepL's older clients and curl send forms; language variants are accepted, too."""
    fields = {"text": ["I see a cat.", "Yes."], "source_lang": "en-GB", "target_lang": "fr-CA", "split_sentences": "0"}
    answer = httpx.post(
        f"{server.url}/v2/translate", data=fields, headers={"Authorization": "DeepL-Auth-Key any"}
    ).json()
    assert answer == {
        "translations": [
            {"detected_source_language": "EN", "text": "Je vois un chat.", "billed_characters": 12},
            {"detected_source_language": "EN", "text": "Oui.", "billed_characters": 4},
        ]
    }
    for none in ("0", 0, False):
        assert httpx.post(f"{server.url}/v2/translate", json=fields | {"split_sentences": none}).json() == answer
    languages = httpx.post(f"{server.url}/v2/languages", data={"type": "source"}).json()
    assert languages == [{"language": "EN", "name": "English"}]
    assert set(httpx.post(f"{server.url}/v2/usage").json()) == {"character_count", "character_limit"}
