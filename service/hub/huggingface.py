"""Hugging Face's hub, by its own client: its cache, its tokens and its `HF_...` variables.

Only files that the importer reads are downloaded, and never code. The client compares sizes; sums are compared here.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partialmethod
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from model.checkpoint_config import Origin, sha256_of
from service.hub.errors import HubError, TemporaryHubError, is_full_disk, missing_offline
from service.hub.names import HubName, HubOptions
from service.hub.progress import Progress
from service.hub.release import Files, Release

_TOKENIZERS: Final = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "target_vocab.json",
    "shared_vocabulary.json",
    "shared_vocabulary.txt",
    "source_vocabulary.json",
    "source_vocabulary.txt",
    "target_vocabulary.json",
    "target_vocabulary.txt",
    "source.spm",
    "target.spm",
    "source.model",  # this one and the next two are of our own checkpoints
    "target.model",
    "vocabulary.json",
    "spiece.model",
    "sentencepiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
_WEIGHTS: Final = (
    re.compile(r"model\.safetensors"),
    re.compile(r"model(-\d+-of-\d+)?\.safetensors(\.index\.json)?"),
    re.compile(r"pytorch_model\.bin"),
    re.compile(r"pytorch_model(-\d+-of-\d+)?\.bin(\.index\.json)?"),
    re.compile(r"model\.bin"),  # CTranslate2's
)
"""Files of weights, the preferred kind first."""
_DEFAULT_REVISION: Final = "main"
_TIMEOUT_SECONDS: Final = 30.0
_PASSING: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


def release(name: HubName, options: HubOptions) -> Release:
    """Return the revision of a name, from the hub, or offline from the hub's own cache.

    Raises `HubError`.
    """
    # The client would otherwise ask its host once a day for the names of programs that it may report.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import constants

    if options.offline or constants.HF_HUB_OFFLINE:
        return _cached(name)
    info = _info(name)
    sizes = {each.rfilename: each.size or 0 for each in info.siblings or ()}
    chosen = chosen_files(sizes)
    if not chosen:
        raise HubError(f"{name}: has no weights that can be imported: safetensors, PyTorch's or CTranslate2's")
    licence = getattr(info.card_data, "license", None)
    return Release(
        _origin(name, info.sha, constants.ENDPOINT, licence if isinstance(licence, str) else None),
        sum(sizes[file] for file in chosen),
        lambda directory, progress: _fetch(name, info.sha, chosen, directory, progress),
    )


def chosen_files(files: Collection[str]) -> list[str]:
    """Choose the files that the importer reads: tokenizers, and one kind of weights; [] without weights."""
    for kind in _WEIGHTS:
        weights = sorted(file for file in files if kind.fullmatch(file))
        if any(not file.endswith(".json") for file in weights):
            return [*(file for file in _TOKENIZERS if file in files), *weights]
    return []


def remove_download(name: HubName, revision: str) -> int:
    """Remove a revision from the hub's own cache; return the bytes that this frees."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cache = scan_cache_dir()
    except CacheNotFound:
        return 0
    repositories = (each for each in cache.repos if each.repo_id == name.model)
    if not any(each.commit_hash == revision for repository in repositories for each in repository.revisions):
        return 0
    strategy = cache.delete_revisions(revision)
    strategy.execute()
    return int(strategy.expected_freed_size)


def _info(name: HubName) -> Any:
    """Ask the hub for a revision and its files."""
    from huggingface_hub import HfApi

    with _reported(name):
        return HfApi().model_info(name.model, revision=name.revision, files_metadata=True, timeout=_TIMEOUT_SECONDS)


def _cached(name: HubName) -> Release:
    """Return the revision in the hub's own cache, which other programs may have filled."""
    from huggingface_hub import constants, try_to_load_from_cache

    path = try_to_load_from_cache(name.model, "config.json", revision=name.revision)
    files = [each.name for each in Path(path).parent.iterdir()] if isinstance(path, str) else []
    if not isinstance(path, str) or not (chosen := chosen_files(files)):
        raise missing_offline(name)
    paths = {file: Path(path).parent / file for file in chosen}
    return Release(
        _origin(name, Path(path).parent.name, constants.ENDPOINT),
        0,
        lambda directory, progress: _gathered(name, paths, directory),
    )


def _origin(name: HubName, revision: str, endpoint: str, licence: str | None = None) -> Origin:
    return Origin(
        name=str(name.unpinned),
        revision=revision,
        aliases=(name.revision or _DEFAULT_REVISION,),
        url=f"{endpoint}/{name.model}",
        licence=licence,
    )


def _fetch(name: HubName, revision: str, files: Collection[str], directory: Path, progress: Progress) -> Files:
    from huggingface_hub import hf_hub_download

    paths = {}
    for file in files:
        before = progress.done
        bar: Any = _progress_bar(progress)
        with _reported(name):
            paths[file] = Path(hf_hub_download(name.model, file, revision=revision, tqdm_class=bar))
        # The client counts nothing for a file in its cache.
        progress.advance(before + paths[file].stat().st_size - progress.done)
    return _gathered(name, paths, directory)


def _progress_bar(progress: Progress) -> type[Any]:
    """Return a class of progress bars for the hub's client that draw nothing and report to `progress`."""
    from tqdm import tqdm

    def update(bar: Any, n: float | None = 1) -> None:
        progress.advance(int(n or 0))

    # The client also calls other methods of its library's progress bars.
    return type("Bar", (tqdm,), {"__init__": partialmethod(tqdm.__init__, disable=True), "update": update})


def _gathered(name: HubName, paths: Mapping[str, Path], directory: Path) -> Files:
    """Check the files, and gather them in a directory with the model's name, which tells a Marian model's languages."""
    gathered = directory / name.model.rpartition("/")[2]
    gathered.mkdir(exist_ok=True)
    for file, path in paths.items():
        _verify(name, file, path)
        _link(path.resolve(), gathered / file)
    return Files(gathered, {file: sha256_of(path) for file, path in paths.items()})


def _link(path: Path, link: Path) -> None:
    """Link a file, or copy it to another disk. The importer refuses symbolic links that leave their directory."""
    link.unlink(missing_ok=True)
    try:
        link.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, link)


def _verify(name: HubName, file: str, path: Path) -> None:
    """Compare a file with the hub's sum, which is its name in the cache: SHA-256 for large files, else git's SHA-1.

    A damaged file is removed, so that the next attempt downloads it again.
    """
    blob = path.resolve()
    match len(blob.name):
        case 64:
            found = sha256_of(blob)
        case 40:
            content = blob.read_bytes()
            found = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        case _:  # names are no sums in a cache without links, or from a server of another kind
            return
    if found != blob.name:
        path.unlink()
        blob.unlink(missing_ok=True)
        raise TemporaryHubError(
            f"{name}: {file} has the sum {found}, the hub says {blob.name}; it was removed, try again"
        )


@contextmanager
def _reported(name: HubName) -> Iterator[None]:
    """Convert the errors of the hub's client to ours; errors of the disk pass unchanged."""
    from huggingface_hub import constants, errors

    host = urlsplit(constants.ENDPOINT).netloc
    try:
        yield
    except errors.GatedRepoError:
        page = f"{constants.ENDPOINT}/{name.model}"
        raise HubError(f"{name}: is gated; accept its conditions at {page}, then set HF_TOKEN to your token") from None
    except errors.RevisionNotFoundError:
        raise HubError(f"{name}: {host} has this model, but no revision {name.revision}") from None
    except errors.RepositoryNotFoundError:
        raise HubError(
            f"{name}: {host} has no such model, or it is private, and no such file is here; check the name, or set "
            "HF_TOKEN to your token"
        ) from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        passing = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING
        raise (TemporaryHubError if passing else HubError)(f"{name}: {host} answers {status}") from None
    except Exception as error:  # errors of its HTTP library, which the client does not convert
        if is_full_disk(error):
            raise
        cause = error.__cause__ or error
        reason = (str(cause) or type(cause).__name__).splitlines()[0]
        if isinstance(error, ValueError) and not isinstance(error, OSError):
            reason = f"it answers with no JSON: a proxy's or a login page? ({reason})"
        raise TemporaryHubError(f"{name}: {host} cannot be reached, or cut the connection: {reason}") from None
