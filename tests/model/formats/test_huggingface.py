"""Imported, a model of transformers computes what transformers computes: logits, greedy and beam search."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tokenizers
import torch
from safetensors.torch import load_file, save_file

from model.checkpoint import load_model
from model.decoding import beam_decode, greedy_decode
from model.formats import import_checkpoint
from model.formats.reading import read_json
from model.manifest import ANY, CheckpointError, Wanted, load_config, load_tokenizer
from model.tokenizer import Tokenizer
from model.training.data import train_tokenizer
from model.transformer import Transformer
from tests.conftest import WORDS
from tests.model.formats.conftest import SHAPE, pieces_of, randomised, write_json, write_tokenizer_json

transformers: Any = pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")

LENGTH = 14
ENGLISH_FRENCH = Wanted("en", "fr")

Build = Callable[..., Any]


def marian(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    pieces = ["</s>", "<unk>", *pieces_of(tokenizer)[4:], "<pad>"]
    common = {"activation_function": "swish", "scale_embedding": True, "eos_token_id": 0}
    last = len(pieces) - 1
    config = transformers.MarianConfig(
        **(SHAPE | common | changes), vocab_size=len(pieces), pad_token_id=last, decoder_start_token_id=last
    )
    model = randomised(transformers.MarianMTModel(config))
    model.save_pretrained(directory)
    for name in ("source.spm", "target.spm"):
        (directory / name).write_bytes(tokenizer.files["tokenizer.model"])
    write_json(directory / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    if not changes.get("share_encoder_decoder_embeddings", True):
        write_json(directory / "target_vocab.json", {piece: i for i, piece in enumerate(pieces)})
    return model


def m2m100(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(tokenizer)[4:]]
    languages = ["__de__", "__en__", "__fr__"]
    config = transformers.M2M100Config(**SHAPE, vocab_size=len(pieces) + len(languages) + 2, **changes)
    model = randomised(transformers.M2M100ForConditionalGeneration(config))
    model.save_pretrained(directory)
    (directory / "sentencepiece.bpe.model").write_bytes(tokenizer.files["tokenizer.model"])
    write_json(directory / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    write_json(directory / "special_tokens_map.json", {"additional_special_tokens": languages})
    return model


def nllb(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    size = write_tokenizer_json(
        directory / "tokenizer.json", tokenizer, ["eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant"]
    )
    config = transformers.M2M100Config(**SHAPE, vocab_size=size, pad_token_id=0, bos_token_id=1, **changes)
    model = randomised(transformers.M2M100ForConditionalGeneration(config))
    model.save_pretrained(directory)
    return model


def mbart(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    size = write_tokenizer_json(directory / "tokenizer.json", tokenizer, ["en_XX", "fr_XX", "pt_BR"])
    config = transformers.MBartConfig(
        **SHAPE, vocab_size=size, pad_token_id=0, bos_token_id=1, decoder_start_token_id=2, **changes
    )
    model = randomised(transformers.MBartForConditionalGeneration(config))
    model.save_pretrained(directory)
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "MBart50Tokenizer"})
    return model


def mbart_cc25(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    size = write_tokenizer_json(directory / "tokenizer.json", tokenizer, ["en_XX", "fr_XX", "pt_BR"])
    options = {"pad_token_id": 0, "bos_token_id": 1, "decoder_start_token_id": size - 2} | changes
    model = randomised(
        transformers.MBartForConditionalGeneration(transformers.MBartConfig(**SHAPE, vocab_size=size, **options))
    )
    model.save_pretrained(directory)
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "MBartTokenizer"})
    return model


def bart(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    size = write_tokenizer_json(directory / "tokenizer.json", tokenizer)
    config = transformers.BartConfig(
        **SHAPE, vocab_size=size, pad_token_id=0, bos_token_id=1, decoder_start_token_id=2, **changes
    )
    model = randomised(transformers.BartForConditionalGeneration(config))
    model.save_pretrained(directory)
    return model


def t5(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    size = write_tokenizer_json(directory / "tokenizer.json", tokenizer, ["<2en>", "<2fr>", "<2translate>"])
    config = transformers.T5Config(
        d_model=24,
        d_kv=7,
        d_ff=40,
        num_layers=2,
        num_decoder_layers=3,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        vocab_size=size,
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=0,
        **changes,
    )
    model = randomised(transformers.T5ForConditionalGeneration(config))
    model.save_pretrained(directory)
    return model


FAMILIES = [
    (marian, {}),
    (marian, {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}),
    (marian, {"scale_embedding": False, "activation_function": "gelu"}),
    (m2m100, {}),
    (m2m100, {"activation_function": "gelu", "scale_embedding": False}),
    (nllb, {}),
    (mbart, {}),
    (mbart, {"scale_embedding": True, "activation_function": "relu"}),
    (mbart_cc25, {}),
    (bart, {}),
    (t5, {}),
    (t5, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
]


@pytest.mark.parametrize(("build", "changes"), FAMILIES, ids=lambda each: getattr(each, "__name__", None))
def test_logits_greedy_and_beams(build: Build, changes: dict[str, Any], tmp_path: Path, tokenizer: Tokenizer) -> None:
    theirs = build(tmp_path, tokenizer, **changes)
    config = import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)
    ours, read = load_model(tmp_path / "ours"), load_tokenizer(tmp_path / "ours")
    sources = read.encode_batch(["the cat sat", "la", "a big red house ran under the mat and ate"], "fr", "en")
    prompt = read.target_prefix("fr", "en")
    _assert_same_logits(ours, theirs, sources, [ours.config.bos_id, *prompt, 7, 9, 4])
    theirs.generation_config = transformers.GenerationConfig()  # without an end that is forced at the limit
    options = transformers.GenerationConfig(
        max_new_tokens=LENGTH + len(prompt),
        pad_token_id=ours.config.pad_id,
        eos_token_id=ours.config.eos_id,
        decoder_start_token_id=ours.config.bos_id,
        forced_bos_token_id=prompt[0] if prompt else None,
        use_cache=build is not t5,  # whose cache is as deep as the encoder
        suppress_tokens=[*range(len(read), ours.config.vocab_size)] or None,
    )
    if build is marian:
        # Its padding is what ours never writes.
        theirs.final_logits_bias[0, ours.config.pad_id] = -1e4
    for source in sources:
        ids = torch.tensor([source])
        [greedy] = greedy_decode(ours, [source], LENGTH, prompt)
        assert greedy == _generated(theirs, ids, options, len(prompt))
        options.update(num_beams=4, early_stopping=True)
        [[best]] = beam_decode(ours, [source], LENGTH, 4, prompt=prompt)
        assert best.ids == _generated(theirs, ids, options, len(prompt))
        options.update(num_beams=1, early_stopping=False)
    assert config == load_config(tmp_path / "ours")


def _assert_same_logits(ours: Transformer, theirs: Any, sources: Sequence[list[int]], target: list[int]) -> None:
    for source in sources:
        ids, written = torch.tensor([source]), torch.tensor([target])
        with torch.inference_mode():
            expected = theirs(input_ids=ids, decoder_input_ids=written).logits
            inputs = torch.tensor([[*target[1:], ours.config.eos_id]])
            assert ours.config.pad_id not in target[1:]
            computed = ours(ids, inputs)
            if ours.config.projection_bias:
                never = ours.projection.bias < -1e3
                computed[..., never] = expected[..., never]
        torch.testing.assert_close(computed, expected, rtol=1e-4, atol=1e-4)


def _generated(theirs: Any, ids: torch.Tensor, options: Any, prompt: int) -> list[int]:
    with torch.inference_mode():
        [row] = theirs.generate(ids, generation_config=options).tolist()
    return [int(token) for token in row[1 + prompt :]]


def test_all_that_is_not_supported_is_named_at_once(tmp_path: Path, tokenizer: Tokenizer) -> None:
    marian(tmp_path, tokenizer, add_final_layer_norm=True, decoder_ffn_dim=41, activation_function="quick_gelu")
    message = (
        "not supported: activation_function is quick_gelu; add_final_layer_norm is True; "
        "encoder_ffn_dim is 40 but decoder_ffn_dim is 41"
    )
    with pytest.raises(CheckpointError, match=message):
        import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)


def test_weights_that_are_left_over_or_missing_are_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    m2m100(tmp_path, tokenizer)
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.extra"] = weights.pop("model.decoder.layer_norm.bias")
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"missing model\.decoder\.layer_norm\.bias; unexpected model\.extra"):
        import_checkpoint(tmp_path, tmp_path / "ours")


@pytest.mark.parametrize("parts", [1, 2])
def test_weights_in_pytorch_files(parts: int, tmp_path: Path, tokenizer: Tokenizer) -> None:
    m2m100(tmp_path, tokenizer)
    import_checkpoint(tmp_path, tmp_path / "expected")
    weights = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    names = sorted(weights)
    files = ["pytorch_model.bin"] if parts == 1 else [f"pytorch_model-{i}.bin" for i in range(parts)]
    for i, file in enumerate(files):
        torch.save({name: weights[name] for name in names[i::parts]}, tmp_path / file)
    if parts > 1:
        index = {name: files[i % parts] for i, name in enumerate(names)}
        write_json(tmp_path / "pytorch_model.bin.index.json", {"weight_map": index})
    import_checkpoint(tmp_path, tmp_path / "ours")
    assert (tmp_path / "ours" / "model.safetensors").read_bytes() == (
        tmp_path / "expected" / "model.safetensors"
    ).read_bytes()


def test_weights_in_a_file_of_before_pytorch_1_6(tmp_path: Path, tokenizer: Tokenizer) -> None:
    m2m100(tmp_path, tokenizer)
    import_checkpoint(tmp_path, tmp_path / "expected")
    (tmp_path / "model.safetensors").rename(tmp_path / "weights")
    file = tmp_path / "pytorch_model.bin"
    torch.save(load_file(tmp_path / "weights"), file, _use_new_zipfile_serialization=False)
    import_checkpoint(tmp_path, tmp_path / "ours")
    written, expected = (load_file(tmp_path / each / "model.safetensors") for each in ("ours", "expected"))
    assert written.keys() == expected.keys()
    assert all(torch.equal(written[name], expected[name]) for name in written)
    torch.save({"model.shared.weight": _Evil()}, file, _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: .*[Ww]eights"):
        import_checkpoint(tmp_path, tmp_path / "ours")


@pytest.mark.parametrize(
    ("build", "extra", "missing"),
    [
        (t5, ["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"], []),
        (bart, ["model.encoder.version", "model.decoder.version"], []),
        (marian, [], ["final_logits_bias"]),
    ],
)
def test_weights_that_transformers_ignores_or_does_without(
    build: Build, extra: list[str], missing: list[str], tmp_path: Path, tokenizer: Tokenizer
) -> None:
    theirs = build(tmp_path, tokenizer)
    path = tmp_path / "model.safetensors"
    weights = load_file(path) | {name: torch.ones(8, 4) for name in extra}
    save_file({name: each for name, each in weights.items() if name not in missing}, path, {"format": "pt"})
    theirs = type(theirs).from_pretrained(tmp_path)
    import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)
    _assert_same_logits(load_model(tmp_path / "ours"), theirs, [[5, 9, 40]], [theirs.config.decoder_start_token_id, 7])
    weights["model.other.version"] = torch.ones(1)
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"unexpected model\.other\.version"):
        import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)


class _Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("/nowhere/touched"),))


def test_nothing_in_a_checkpoint_is_run(tmp_path: Path, tokenizer: Tokenizer) -> None:
    m2m100(tmp_path, tokenizer)
    (tmp_path / "model.safetensors").unlink()
    torch.save({"model.shared.weight": _Evil()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: .*[Ww]eights"):
        import_checkpoint(tmp_path, tmp_path / "ours")


def test_languages_are_what_the_tokenizer_has(tmp_path: Path, tokenizer: Tokenizer) -> None:
    found = {}
    for build in (nllb, mbart, m2m100, t5):
        directory = tmp_path / build.__name__
        directory.mkdir()
        build(directory, tokenizer)
        found[build.__name__] = import_checkpoint(directory, directory / "ours").languages
    assert found == {
        "nllb": ("en", "fr", "zh-Hans", "zh-Hant"),
        "mbart": ("en", "fr", "pt"),
        "m2m100": ("de", "en", "fr"),
        "t5": ("en", "fr"),
    }


def test_the_first_mbart_is_told_languages_behind_the_text_and_in_the_place_of_a_start(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    mbart_cc25(tmp_path, tokenizer)
    config = import_checkpoint(tmp_path, tmp_path / "ours", Wanted("en", None))
    ours = load_tokenizer(tmp_path / "ours")
    assert [str(each) for each in config.directions] == ["en-fr"]
    theirs = transformers.MBartTokenizer.from_pretrained(tmp_path, src_lang="en_XX", tgt_lang="fr_XX")
    for text in ("the cat sat", "a red house"):
        assert ours.encode(text, "fr", "en") == theirs(text).input_ids
    assert ours.target_prefix("fr", "en") == []
    assert config.model.bos_id == theirs.convert_tokens_to_ids("fr_XX")


def test_the_first_mbart_starts_in_the_language_that_is_wanted(tmp_path: Path, tokenizer: Tokenizer) -> None:
    mbart_cc25(tmp_path, tokenizer, decoder_start_token_id=None)
    config = import_checkpoint(tmp_path, tmp_path / "ours", Wanted("fr", "pt"))
    assert config.model.bos_id == load_tokenizer(tmp_path / "ours").piece_id("pt_BR")
    with pytest.raises(CheckpointError, match="do not say its languages"):
        import_checkpoint(tmp_path, tmp_path / "ours", Wanted("en", None))
    with pytest.raises(CheckpointError, match="xx is none of its languages: en, fr, pt"):
        import_checkpoint(tmp_path, tmp_path / "ours", Wanted("en", "xx"))


def test_marian_reads_text_as_it_does_there(tmp_path: Path, tokenizer: Tokenizer) -> None:
    marian(tmp_path, tokenizer)
    files = {"source_spm": "source.spm", "target_spm": "target.spm", "vocab": "vocab.json"}
    theirs = transformers.MarianTokenizer(**{name: str(tmp_path / file) for name, file in files.items()})
    import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)
    ours = load_tokenizer(tmp_path / "ours")
    for text in ("the cat sat", "Le chat, \u65e5!", ""):
        assert ours.encode(text, "fr", "en") == theirs(text).input_ids
    assert ours.decode(ours.encode("the cat sat")) == "the cat sat"


@pytest.mark.parametrize("text", ["</s> the cat", "eng_Latn fra_Latn", "<pad>"])
def test_text_cannot_imitate_special_tokens(text: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    nllb(tmp_path, tokenizer)
    import_checkpoint(tmp_path, tmp_path / "ours")
    read = load_tokenizer(tmp_path / "ours")
    first, *middle, last = read.encode(text, "fr", "en")
    special = {first, last, *read.target_prefix("fr", "en"), read.pad_id, read.bos_id}
    assert not special & set(middle)


def test_the_languages_of_a_pair_have_to_be_known(tmp_path: Path, tokenizer: Tokenizer) -> None:
    marian(tmp_path, tokenizer)
    with pytest.raises(CheckpointError, match="do not say its languages"):
        import_checkpoint(tmp_path, tmp_path / "ours")
    write_json(tmp_path / "tokenizer_config.json", {"source_lang": "eng", "target_lang": "fra"})
    [direction] = import_checkpoint(tmp_path, tmp_path / "ours").directions
    assert str(direction) == "en-fr"


@pytest.mark.parametrize("name", ["opus-mt-ROMANCE-en", "opus-mt-en-CELTIC"])
def test_a_group_of_languages_is_no_direction(name: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    directory = tmp_path / name
    directory.mkdir()
    marian(directory, tokenizer)
    with pytest.raises(CheckpointError, match="do not say its languages"):
        import_checkpoint(directory, tmp_path / "ours")
    wanted = Wanted("es", None) if name.endswith("-en") else Wanted(None, "it")
    [direction] = import_checkpoint(directory, tmp_path / "ours", wanted).directions
    assert direction.codes() in (("es", "en"), ("en", "it"))


def test_what_is_wanted_has_to_be_a_language(tmp_path: Path, tokenizer: Tokenizer) -> None:
    marian(tmp_path, tokenizer)
    with pytest.raises(CheckpointError, match="source: String should match pattern"):
        import_checkpoint(tmp_path, tmp_path / "ours", Wanted("French", "en"))


@pytest.mark.parametrize(("build", "rows"), [(nllb, 2), (m2m100, 0), (t5, 9)])
def test_rows_without_a_piece_are_never_written(build: Build, rows: int, tmp_path: Path, tokenizer: Tokenizer) -> None:
    theirs = build(tmp_path, tokenizer)
    size = theirs.config.vocab_size + rows
    theirs.resize_token_embeddings(size, mean_resizing=False)
    with torch.no_grad():
        theirs.get_output_embeddings().weight[-2:] = 9.0
    theirs.save_pretrained(tmp_path)
    import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)
    model, read = load_model(tmp_path / "ours"), load_tokenizer(tmp_path / "ours")
    nameless = range(len(read), model.config.vocab_size)
    assert len(nameless) >= 2
    assert read.decode([7, *nameless, 9]) == read.decode([7, 9])
    with torch.inference_mode():
        logits = model(torch.tensor([read.encode("the cat", "fr", "en")]), torch.tensor([[7, 9, 4, 5]]))
    assert (logits.softmax(-1)[..., len(read) :] == 0).all()


@pytest.mark.parametrize("build", [nllb, t5, bart])
def test_a_text_cannot_have_a_piece_without_a_row(build: Build, tmp_path: Path, tokenizer: Tokenizer) -> None:
    build(tmp_path, tokenizer)
    path = tmp_path / "tokenizer.json"
    read = tokenizers.Tokenizer.from_file(str(path))
    size = read.get_vocab_size()
    read.add_special_tokens(["<mask>"])
    read.save(str(path))
    import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)
    read.add_tokens(["zebra"])
    read.save(str(path))
    with pytest.raises(CheckpointError, match=f"the tokenizer has the source piece {size + 1}, the model {size} of"):
        import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)


def test_a_language_cannot_be_without_a_row(tmp_path: Path, tokenizer: Tokenizer) -> None:
    nllb(tmp_path, tokenizer)
    path = tmp_path / "tokenizer.json"
    read = tokenizers.Tokenizer.from_file(str(path))
    size = read.get_vocab_size()
    read.add_special_tokens(["deu_Latn"])
    read.save(str(path))
    with pytest.raises(CheckpointError, match=f"the tokenizer has the source piece {size}, the model {size} of"):
        import_checkpoint(tmp_path, tmp_path / "ours")


def _fairseq_model(path: Path) -> list[str]:
    """A SentencePiece model of the kind that fairseq's are; returns its pieces."""
    sentences = [f"{first} {second} {third}" for first in WORDS for second in WORDS for third in WORDS[::3]]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_prefix=str(path.with_suffix("")), vocab_size=40, minloglevel=1
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [processor.id_to_piece(i) for i in range(40)]


@pytest.mark.parametrize(
    ("name", "languages", "wanted"), [("MBart50Tokenizer", 52, ANY), ("MBartTokenizer", 25, ENGLISH_FRENCH)]
)
def test_an_mbart_with_nothing_but_its_sentencepiece_model(
    name: str, languages: int, wanted: Wanted, tmp_path: Path
) -> None:
    pieces = _fairseq_model(tmp_path / "sentencepiece.bpe.model")
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": name})
    size = len(pieces) + 1 + languages + 1
    model = randomised(transformers.MBartForConditionalGeneration(transformers.MBartConfig(**SHAPE, vocab_size=size)))
    model.save_pretrained(tmp_path)
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:]]
    codes = transformers.models.mbart50.tokenization_mbart50.FAIRSEQ_LANGUAGE_CODES[:languages]
    theirs = getattr(transformers, name).from_pretrained(tmp_path, src_lang="en_XX")
    import_checkpoint(tmp_path, tmp_path / "ours", wanted)
    read = load_tokenizer(tmp_path / "ours")
    for piece in (*vocabulary, *codes, "<mask>"):
        assert read.piece_id(piece) == theirs.convert_tokens_to_ids(piece)
    assert len(read) == size
    ids = read.encode("the cat sat", "fr", "en")
    assert ids[-2:] + ids[:1] == theirs("the cat sat").input_ids[-2:] + theirs("the cat sat").input_ids[:1]
    assert read.decode(ids) == "the cat sat"


def test_an_nllb_with_nothing_but_its_sentencepiece_model_and_its_languages(tmp_path: Path) -> None:
    pieces = _fairseq_model(tmp_path / "sentencepiece.bpe.model")
    config = transformers.M2M100Config(**SHAPE, vocab_size=len(pieces) + 6)
    randomised(transformers.M2M100ForConditionalGeneration(config)).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="no language tokens are found"):
        import_checkpoint(tmp_path, tmp_path / "ours")
    tags = ["eng_Latn", "fra_Latn"]
    write_json(tmp_path / "special_tokens_map.json", {"additional_special_tokens": tags})
    import_checkpoint(tmp_path, tmp_path / "ours")
    read = load_tokenizer(tmp_path / "ours")
    expected = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:], *tags, "<mask>"]
    assert [read.piece_id(piece) for piece in expected] == list(range(len(expected)))
    write_json(tmp_path / "special_tokens_map.json", {"additional_special_tokens": ["__en__", "__fr__"]})
    with pytest.raises(CheckpointError, match=r"vocab\.json: .*No such file"):
        import_checkpoint(tmp_path, tmp_path / "ours")


def test_a_t5_with_nothing_but_its_sentencepiece_model(tmp_path: Path, tokenizer: Tokenizer) -> None:
    t5(tmp_path, tokenizer)
    import_checkpoint(tmp_path, tmp_path / "expected")
    (tmp_path / "tokenizer.json").unlink()
    tags = {"fr": "<2fr>", "en": "<2en>"}
    tagged = train_tokenizer([" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))], 300, 0, tags)
    (tmp_path / "spiece.model").write_bytes(tagged.files["tokenizer.model"])
    config = import_checkpoint(tmp_path, tmp_path / "ours")
    read = load_tokenizer(tmp_path / "ours")
    assert config.languages == ("en", "fr")
    assert config.prompt.languages == tags
    assert read.encode("the cat", "fr") == [tagged.piece_id("<2fr>"), *tagged.encode("the cat")]
    assert config.model.vocab_size > len(read) == 300


@pytest.mark.parametrize(
    ("build", "name", "content", "message"),
    [
        (m2m100, "vocab.json", None, r"vocab\.json: is not of its format: NoneType, not an object"),
        (m2m100, "vocab.json", {"a": "b"}, "is not of its format: TypeError: "),
        (m2m100, "special_tokens_map.json", [], r"special_tokens_map\.json: is not of its format: list, not an object"),
        (
            m2m100,
            "special_tokens_map.json",
            {"additional_special_tokens": [{}]},
            "not of its format: KeyError: 'content'",
        ),
        (m2m100, "special_tokens_map.json", {"additional_special_tokens": [[]]}, "is not of its format: TypeError: "),
        (m2m100, "model.safetensors.index.json", {}, "is not of its format: KeyError: 'weight_map'"),
        (marian, "tokenizer_config.json", [], r"tokenizer_config\.json: is not of its format: list, not an object"),
        (marian, "config.json", [], r"config\.json: is not of its format: list, not an object"),
        (marian, "config.json", {"model_type": []}, "is not of its format: TypeError: "),
    ],
)
def test_files_that_are_something_else(
    build: Build, name: str, content: Any, message: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    build(tmp_path, tokenizer)
    write_json(tmp_path / name, content)
    with pytest.raises(CheckpointError, match=f"{re.escape(str(tmp_path))}.*{message}"):
        import_checkpoint(tmp_path, tmp_path / "ours")


@pytest.mark.parametrize(
    ("missing", "message"),
    [("added_tokens", "no language tokens are found"), ("decoder", "no rule is known for the decoder null")],
)
def test_a_tokenizer_with_something_missing(missing: str, message: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    nllb(tmp_path, tokenizer)
    path = tmp_path / "tokenizer.json"
    write_json(path, {key: each for key, each in read_json(path).items() if key != missing})
    with pytest.raises(CheckpointError, match=message):
        import_checkpoint(tmp_path, tmp_path / "ours")


def test_a_tokenizer_without_tokens_of_its_own(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bart(tmp_path, tokenizer)
    path = tmp_path / "tokenizer.json"
    write_json(path, {key: each for key, each in read_json(path).items() if key != "added_tokens"})
    import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)
    read = load_tokenizer(tmp_path / "ours")
    assert read.decode(read.encode_target("the cat")) == "the cat"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder_layers": -1}, "decoder_layers: Input should be greater than"),
        ({"encoder_attention_heads": 5, "decoder_attention_heads": 5}, "Value error, "),
    ],
)
def test_numbers_that_no_model_has(change: dict[str, int], message: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    m2m100(tmp_path, tokenizer)
    path = tmp_path / "config.json"
    write_json(path, read_json(path) | change)
    with pytest.raises(CheckpointError, match=f"^{re.escape(str(tmp_path))}: {message}") as caught:
        import_checkpoint(tmp_path, tmp_path / "ours")
    assert "input_value" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "wanted", "message"),
    [
        (m2m100, Wanted("ja", "en"), "ja is none of its source languages: de, en, fr$"),
        (nllb, Wanted("en", "ja"), "ja is none of its target languages: en, fr, zh-Hans, zh-Hant$"),
        (t5, Wanted(None, "ja"), "ja is none of its target languages: en, fr$"),
    ],
)
def test_what_is_wanted_has_to_be_among_the_languages(
    build: Build, wanted: Wanted, message: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    build(tmp_path, tokenizer)
    with pytest.raises(CheckpointError, match=message):
        import_checkpoint(tmp_path, tmp_path / "ours", wanted)
    assert not (tmp_path / "ours").exists()


def test_what_is_wanted_of_a_group_has_to_be_one_of_it(tmp_path: Path, tokenizer: Tokenizer) -> None:
    marian(tmp_path, tokenizer)
    path = tmp_path / "vocab.json"
    vocabulary = read_json(path)
    names = {piece: piece for piece in vocabulary}
    names |= zip(list(vocabulary)[-3:-1], (">>fra<<", ">>deu<<"), strict=True)
    write_json(path, {names[piece]: token for piece, token in vocabulary.items()})
    config = import_checkpoint(tmp_path, tmp_path / "ours", Wanted("en", "fr"))
    assert [str(each) for each in config.directions] == ["en-fr", "en-de"]
    with pytest.raises(CheckpointError, match=r"ja is none of its target languages: de, fr$"):
        import_checkpoint(tmp_path, tmp_path / "ours", Wanted("en", "ja"))


def test_of_many_languages_an_error_names_some(tmp_path: Path, tokenizer: Tokenizer) -> None:
    tags = [f"{first}{second}a_Latn" for first in "qxy" for second in "abcdefgh"]
    size = write_tokenizer_json(tmp_path / "tokenizer.json", tokenizer, tags)
    config = transformers.M2M100Config(**SHAPE, vocab_size=size, pad_token_id=0, bos_token_id=1)
    randomised(transformers.M2M100ForConditionalGeneration(config)).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"en is none of its source languages: (\w{2,3}, ){19}\w+ and 4 more$"):
        import_checkpoint(tmp_path, tmp_path / "ours", Wanted("en", None))


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="neither an Argos package, nor"):
        import_checkpoint(tmp_path, tmp_path / "ours")
    write_json(tmp_path / "config.json", {"model_type": "llama"})
    with pytest.raises(CheckpointError, match="model_type is llama, known are bart, m2m_100, marian"):
        import_checkpoint(tmp_path, tmp_path / "ours")
