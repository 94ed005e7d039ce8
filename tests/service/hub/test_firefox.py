"""Mozilla's index."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from model.checkpoint_config import LanguageHint
from service.hub import firefox
from service.hub.errors import HubError, TemporaryHubError
from service.hub.names import HubOptions, parse_name
from service.hub.progress import Progress
from tests.service.hub.servers import FileServer, firefox_record, publish_firefox

CONTENT = {kind: kind.encode() * 1000 for kind in ("model", "lex", "vocab", "srcvocab", "trgvocab", "qualityModel")}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".zst": zstandard.compress,
    "": bytes,
}


def _model(server: FileServer, pair: str, kinds: str, suffix: str = ".zst", **changes: Any) -> list[dict[str, Any]]:
    return [
        firefox_record(server, pair, kind, CONTENT[kind], PACKERS[suffix](CONTENT[kind]), suffix, **changes)
        for kind in kinds.split()
    ]


def _options(server: FileServer, *models: list[dict[str, Any]]) -> HubOptions:
    records = [record for model in models for record in model]
    return HubOptions(firefox_index=publish_firefox(server, records))


@pytest.mark.parametrize("suffix", [".zst", ""])
def test_the_files_of_a_model_are_downloaded_and_unpacked(suffix: str, server: FileServer, tmp_path: Path) -> None:
    options = _options(server, _model(server, "en-pt", "model lex vocab qualityModel", suffix))
    release = firefox.release(parse_name("firefox:en-pt"), options)
    assert release.languages == LanguageHint("en", "pt")
    assert release.origin.licence == "MPL-2.0"
    progress = Progress()
    files = release.fetch(tmp_path, progress)
    assert {path.name: path.read_bytes() for path in files.path.iterdir()} == {
        "model.enpt.intgemm.alphas.bin": CONTENT["model"],
        "lex.50.50.enpt.s2t.bin": CONTENT["lex"],
        "vocab.enpt.spm": CONTENT["vocab"],
    }
    assert progress.done == release.size
    packed = PACKERS[suffix](CONTENT["model"])
    assert files.sha256["model.enpt.intgemm.alphas.bin"] == hashlib.sha256(packed).hexdigest()


def test_a_copy_of_the_index_may_lie_in_a_directory_with_its_files(server: FileServer, tmp_path: Path) -> None:
    records = _model(server, "en-pt", "model vocab")
    options = HubOptions(firefox_index=server.put_json("/files/records.json", {"data": records}))
    assert len(firefox.release(parse_name("firefox:en-pt"), options).fetch(tmp_path, Progress()).sha256) == 2


def test_the_highest_released_and_complete_version_is_chosen(server: FileServer) -> None:
    options = _options(
        server,
        _model(server, "en-pt", "model lex vocab", version="3.9"),
        _model(server, "en-pt", "model lex vocab", version="3.10"),
        _model(server, "en-pt", "model lex", version="4.0"),
        _model(server, "en-pt", "model lex srcvocab", version="4.1"),
        _model(server, "en-pt", "model lex vocab", version="5.0a1"),
        _model(server, "en-pt", "model lex vocab", version="6.0", filter_expression="env.channel == 'nightly'"),
        _model(server, "en-pt", "model lex vocab srcvocab", version="2.0", architecture="base"),
        _model(server, "fr-en", "model lex vocab", version="3.0", architecture="base"),
        _model(server, "fr-en", "model vocab", version="3.0", architecture="tiny"),
    )
    chosen = {
        name: firefox.release(parse_name(f"firefox:{name}"), options).origin.revision
        for name in ("en-pt", "en-pt@tiny", "en-pt@base", "en-pt@3.9", "en-pt@tiny-3.9", "fr-en")
    }
    assert chosen == {
        "en-pt": "tiny-3.10",
        "en-pt@tiny": "tiny-3.10",
        "en-pt@base": "base-2.0",
        "en-pt@3.9": "tiny-3.9",
        "en-pt@tiny-3.9": "tiny-3.9",
        "fr-en": "tiny-3.0",  # of equal versions, the smaller
    }
    listed = {str(each.name): each.revision for each in firefox.listings(options)}
    assert listed == {
        "firefox:en-pt@tiny": "3.10",
        "firefox:en-pt@base": "2.0",
        "firefox:fr-en@base": "3.0",
        "firefox:fr-en@tiny": "3.0",
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decompressedHash": "0" * 64}, "decompresses to the SHA-256 .*, its index says 0000"),
        ({"decompressedSize": 10}, "decompresses to more than 10 bytes"),
        ({"decompressedSize": 10_000_000}, "decompresses to 5000 bytes, its index says 10000000"),
    ],
)
def test_a_file_that_is_not_the_one_of_the_index(
    changes: dict[str, Any], message: str, server: FileServer, tmp_path: Path
) -> None:
    options = _options(server, _model(server, "en-pt", "model vocab", **changes))
    with pytest.raises(TemporaryHubError, match=rf"^model\.enpt\.intgemm\.alphas\.bin\.zst: {message}"):
        firefox.release(parse_name("firefox:en-pt"), options).fetch(tmp_path, Progress())
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_damaged_file(server: FileServer, tmp_path: Path) -> None:
    record = firefox_record(server, "en-pt", "model", CONTENT["model"], b"no archive", ".zst")
    options = _options(server, [record], _model(server, "en-pt", "vocab"))
    with pytest.raises(TemporaryHubError, match="is damaged"):
        firefox.release(parse_name("firefox:en-pt"), options).fetch(tmp_path, Progress())


def test_languages_that_are_no_languages_are_left_out(server: FileServer) -> None:
    options = _options(server, _model(server, "en-pt", "model vocab", sourceLanguage="../../en"))
    assert firefox.listings(options) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "firefox:en-de",
            "firefox:en-de: Mozilla's index has no such direction; `dragoman models --available firefox`",
        ),
        ("firefox:en-pt@base", "firefox:en-pt@base: Mozilla's index has no such architecture, but tiny"),
    ],
)
def test_what_nobody_has(name: str, message: str, server: FileServer) -> None:
    options = _options(server, _model(server, "en-pt", "model vocab"))
    with pytest.raises(HubError, match=f"^{message}"):
        firefox.release(parse_name(name), options)


def test_something_else_than_an_index(server: FileServer, tmp_path: Path) -> None:
    options = HubOptions(firefox_index=server.put_json("/index.json", []))
    with pytest.raises(HubError, match=r"/index\.json: is not Mozilla's index"):
        firefox.listings(options)
    options = _options(server, _model(server, "en-pt", "model vocab"))
    server.put_json("/v1/", {})
    with pytest.raises(HubError, match="/v1/: does not say where its attachments are"):
        firefox.release(parse_name("firefox:en-pt"), options).fetch(tmp_path, Progress())
