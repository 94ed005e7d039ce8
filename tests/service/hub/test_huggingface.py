"""Hugging Face's hub, by its own client against a small server."""

from pathlib import Path

import huggingface_hub.constants
import pytest

from service.hub import huggingface
from service.hub.errors import HubError, TemporaryHubError
from service.hub.huggingface import chosen_files, remove_download
from service.hub.names import HubOptions, parse_name
from service.hub.progress import Progress
from tests.service.hub.servers import COMMIT, FileServer, publish_repository

NAME = parse_name("acme/opus-mt-en-de")
FILES = {
    "config.json": b"{}",
    "model.safetensors": bytes(300_000),
    "pytorch_model.bin": b"pickled",
    "source.spm": b"pieces",
    "modeling.py": b"code",
    "README.md": b"",
}
FETCHED = {name: FILES[name] for name in ("config.json", "model.safetensors", "source.spm")}
ONLINE = HubOptions()


@pytest.fixture(autouse=True)
def hub(server: FileServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The client reads its variables once; here it has the server as its hub, and a cache of its own."""
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "huggingface"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    publish_repository(server, NAME.model, FILES)
    return tmp_path / "huggingface"


def _fetch(directory: Path, options: HubOptions = ONLINE, progress: Progress | None = None) -> dict[str, bytes]:
    directory.mkdir(exist_ok=True)
    files = huggingface.release(NAME, options).fetch(directory, progress or Progress())
    assert files.path.name == "opus-mt-en-de"
    assert files.sha256.keys() == {path.name for path in files.path.iterdir()}
    assert not any(path.is_symlink() for path in files.path.iterdir())
    return {path.name: path.read_bytes() for path in files.path.iterdir()}


def test_only_what_the_importer_reads_is_downloaded(server: FileServer, tmp_path: Path) -> None:
    release = huggingface.release(NAME, ONLINE)
    assert release.size == sum(map(len, FETCHED.values()))
    origin = release.origin
    assert (origin.name, origin.revision, origin.licence) == ("hf:acme/opus-mt-en-de", COMMIT, "cc-by-4.0")
    progress = Progress()
    assert _fetch(tmp_path / "a", progress=progress) == FETCHED
    assert progress.done == release.size
    assert not [path for _, path, _ in server.requests if "agent" in path or path.endswith((".py", ".bin"))]


def test_what_is_in_the_cache_is_not_downloaded_again(server: FileServer, tmp_path: Path) -> None:
    _fetch(tmp_path / "a")
    server.requests.clear()
    progress = Progress()
    assert _fetch(tmp_path / "b", progress=progress) == FETCHED
    assert not [path for method, path, _ in server.requests if method == "GET" and "/resolve/" in path]
    assert progress.done == sum(map(len, FETCHED.values()))


def test_a_download_that_is_cut_is_resumed(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 50_000)
    path = f"/{NAME.model}/resolve/{COMMIT}/model.safetensors"
    server.answers[path].cuts = [100_000]
    assert _fetch(tmp_path / "a") == FETCHED
    assert [headers.get("range") for headers in server.gets(path)] == [None, "bytes=100000-"]


def test_offline_the_cache_is_enough(server: FileServer, tmp_path: Path) -> None:
    _fetch(tmp_path / "a")
    server.requests.clear()
    name = parse_name(f"{NAME}@{COMMIT}")
    files = huggingface.release(name, HubOptions(offline=True)).fetch(tmp_path / "a", Progress())
    assert {path.name for path in files.path.iterdir()} == FETCHED.keys()
    assert not server.requests


def test_offline_without_a_cache_the_model_is_missing(server: FileServer) -> None:
    with pytest.raises(HubError, match=r"^hf:acme/opus-mt-en-de: is not here, and offline .* `dragoman pull hf:acme"):
        huggingface.release(NAME, HubOptions(offline=True))
    assert not server.requests


def test_a_file_with_a_wrong_sum_is_removed(server: FileServer, tmp_path: Path) -> None:
    path = f"/{NAME.model}/resolve/{COMMIT}/model.safetensors"
    answer = server.answers[path]
    server.put(path, b"x" * 300_000, headers=answer.headers)
    with pytest.raises(TemporaryHubError, match=r"^hf:acme/opus-mt-en-de: model\.safetensors has the sum"):
        _fetch(tmp_path / "a")
    server.answers[path] = answer
    assert _fetch(tmp_path / "b") == FETCHED


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (404, "RepoNotFound", "has no such model, or it is private, and no such file is here", HubError),
        (401, "RepoNotFound", "has no such model, or it is private", HubError),
        (404, "RevisionNotFound", "has this model, but no revision None", HubError),
        (
            403,
            "GatedRepo",
            "is gated; accept its conditions at http://.*/acme/opus-mt-en-de, then set HF_TOKEN",
            HubError,
        ),
        (403, "", "answers 403", HubError),
        (500, "", "answers 500", TemporaryHubError),
    ],
)
def test_what_the_hub_refuses(status: int, code: str, message: str, kind: type[HubError], server: FileServer) -> None:
    server.put(f"/api/models/{NAME.model}", b"{}", status=status, headers={"X-Error-Code": code} if code else {})
    with pytest.raises(HubError, match=f"^hf:acme/opus-mt-en-de: .*{message}") as raised:
        huggingface.release(NAME, ONLINE)
    assert type(raised.value) is kind
    assert "\n" not in str(raised.value)


def test_a_web_page_instead_of_the_hub(server: FileServer) -> None:
    server.put(f"/api/models/{NAME.model}", b"<html>", headers={"Content-Type": "text/html"})
    with pytest.raises(TemporaryHubError, match=r"^hf:acme.*answers with no JSON: a proxy's or a login page\?"):
        huggingface.release(NAME, ONLINE)


def test_no_network(server: FileServer) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(TemporaryHubError, match=r"^hf:acme/opus-mt-en-de: 127\.0\.0\.1:\d+ cannot be reached"):
        huggingface.release(NAME, ONLINE)


def test_a_token_is_sent(server: FileServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    _fetch(tmp_path / "a")
    assert {headers.get("authorization") for _, _, headers in server.requests} == {"Bearer hf_secret"}


def test_a_repository_without_weights(server: FileServer) -> None:
    publish_repository(server, NAME.model, {"config.json": b"{}", "tf_model.h5": b""})
    with pytest.raises(HubError, match="has no weights that can be imported"):
        huggingface.release(NAME, ONLINE)


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        ("model.safetensors pytorch_model.bin", "model.safetensors"),
        (
            "model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json x.bin",
            "model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json",
        ),
        ("pytorch_model.bin pytorch_model.bin.index.json rust_model.ot", "pytorch_model.bin"),
        ("model.safetensors.index.json pytorch_model.bin", "pytorch_model.bin"),
        ("model.bin shared_vocabulary.json", "shared_vocabulary.json model.bin"),
        ("subfolder/model.safetensors", ""),
    ],
)
def test_one_kind_of_weights_is_chosen(files: str, chosen: str) -> None:
    assert chosen_files(files.split()) == chosen.split()


def test_a_download_is_removed_from_the_cache(hub: Path, tmp_path: Path) -> None:
    assert remove_download(NAME, COMMIT) == 0
    _fetch(tmp_path / "a")
    assert remove_download(NAME, "f" * 40) == 0
    assert remove_download(NAME, COMMIT) > 300_000
    assert not list(hub.glob("models--*"))
