"""Tokenizer files of Hugging Face's directories, as the files of one of ours."""

from pathlib import Path
from typing import Final, NamedTuple

import sentencepiece

from model.checkpoint_config import CheckpointError
from model.formats.checked_source import ordered, read_bytes, read_files, read_json, vocabulary_files

_MODEL: Final = "sentencepiece.bpe.model"
_MBART: Final = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN "
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN "
    "te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
).split()
"""Languages in the order of their ids. The first kind has those of the first two lines, the second all of them."""
_MBART_SIZES: Final = (25, len(_MBART))


class Vocabulary(NamedTuple):
    """A tokenizer's files by our names, and its pieces beside the words, in the order of their ids."""

    files: dict[str, bytes]
    special: list[str]


def read_vocabulary(directory: Path, size: int) -> Vocabulary:
    """Read the vocabulary of M2M100, NLLB or mBART, whose models have `size` ids. Raises `CheckpointError`."""
    special = _special_pieces(directory)
    if (directory / "tokenizer.json").exists():
        return Vocabulary(read_files(directory, {"tokenizer.json": "tokenizer.json"}), special)
    files = read_files(directory, {_MODEL: "tokenizer.model"})
    # M2M100's order is its own.
    if (directory / "vocab.json").exists() or any(piece.startswith("__") for piece in special):
        vocabulary = dict(read_json(directory / "vocab.json"))
    else:
        vocabulary = _fairseq_vocabulary(directory / _MODEL)
        # The languages come after the words, and the mask after the languages.
        beside = size - len(vocabulary) - 1
        if beside in _MBART_SIZES and {*special} <= {*_MBART, "<mask>"}:
            special = _MBART[:beside]
        special = [piece for piece in special if piece != "<mask>"] + ["<mask>"]
    for piece in special:
        vocabulary.setdefault(piece, len(vocabulary))
    pieces = ordered(vocabulary, size)
    return Vocabulary(files | vocabulary_files(pieces, pieces), special)


def _fairseq_vocabulary(path: Path) -> dict[str, int]:
    """Return the pieces of a SentencePiece model, but as fairseq numbers the first of them: with one for padding."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=read_bytes(path))
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    if pieces[:3] != ["<unk>", "<s>", "</s>"]:
        raise CheckpointError(f"{path}: begins with {', '.join(pieces[:3])}, not as fairseq's do")
    return {piece: i for i, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces[3:]])}


def _special_pieces(directory: Path) -> list[str]:
    found: dict[str, int] = {}
    if (path := directory / "tokenizer.json").exists():
        found = {each["content"]: each["id"] for each in read_json(path).get("added_tokens", [])}
    elif (path := directory / "added_tokens.json").exists():
        found = read_json(path)
    elif (path := directory / "special_tokens_map.json").exists():
        listed = read_json(path).get("additional_special_tokens", [])
        found = {each if isinstance(each, str) else each["content"]: number for number, each in enumerate(listed)}
    return sorted(found, key=found.__getitem__)
