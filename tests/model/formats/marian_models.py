"""Small random models in Marian's own files, and what Marian computes with them, written down a second time.

The reference follows Marian's sources (transformer.h, cells.h) in float64, one position and one head at a time.
"""

import io
import json
import math
import struct
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy
import sentencepiece
import torch
from torch import Tensor

from tests.conftest import WORDS

WIDTH, HEADS, INNER, LAYERS = 16, 2, 24, 2
EOS, UNKNOWN = 0, 1
MODEL: Final = "model.enpt.intgemm.alphas.bin"
_ALIGNMENT: Final = 256
_TINY: Final[dict[str, Any]] = {
    "type": "transformer",
    "dec-cell": "ssru",
    "dec-depth": LAYERS,
    "dim-emb": WIDTH,
    "enc-depth": LAYERS,
    "input-types": [],
    "layer-normalization": False,
    "lemma-dim-emb": 0,
    "output-omit-bias": False,
    "right-left": False,
    "tied-embeddings": False,
    "tied-embeddings-all": True,
    "tied-embeddings-src": False,
    "transformer-decoder-autoreg": "rnn",
    "transformer-dim-ffn": INNER,
    "transformer-ffn-activation": "relu",
    "transformer-ffn-depth": 2,
    "transformer-heads": HEADS,
    "transformer-no-projection": False,
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-preprocess": "",
    "transformer-tied-layers": [],
    "version": "v1.9.56",
}
"""The options of Firefox's tiny models, in a smaller size."""
STUDENTS: Final[dict[str, dict[str, Any]]] = {
    name: {"dim-emb": width, "transformer-dim-ffn": inner, "enc-depth": 6, "dec-depth": layers, "transformer-heads": 8}
    for name, width, inner, layers in (("tiny", 256, 1536, 2), ("base-memory", 384, 1536, 4), ("base", 512, 2048, 2))
}
"""The sizes of Firefox's models: student.*.yml in https://github.com/mozilla/translations."""


def sentencepiece_model(pieces: int) -> bytes:
    """A model that numbers its special pieces as Marian does."""
    written = io.BytesIO()
    sentences = (f"{first} {second} {third}" for first in WORDS for second in WORDS for third in WORDS[::3])
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences,
        model_writer=written,
        vocab_size=pieces,
        eos_id=EOS,
        unk_id=UNKNOWN,
        bos_id=-1,
        pad_id=-1,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return written.getvalue()


def size_of(model: bytes) -> int:
    return int(sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size())


class MarianModel:
    """Random parameters under Marian's names."""

    def __init__(self, source_size: int, target_size: int, **options: Any) -> None:
        self.options = {**_TINY, "dim-vocabs": [source_size, target_size], **options}
        self._width, self._heads = self.options["dim-emb"], self.options["transformer-heads"]
        self._random = torch.Generator().manual_seed(1)
        self.parameters: dict[str, Tensor] = {}
        self._add_embeddings(source_size, target_size)
        for i in range(1, self.options["enc-depth"] + 1):
            self._add_attention(f"encoder_l{i}_self")
            self._add_feed_forward(f"encoder_l{i}_ffn")
        for i in range(1, self.options["dec-depth"] + 1):
            if self._is_recurrent:
                for name in ("W", "Wf"):
                    self._add(f"decoder_l{i}_rnn_{name}", self._width, self._width)
                self._add(f"decoder_l{i}_rnn_bf", 1, self._width)
                self._add_norm(f"decoder_l{i}_rnn" if self._is_pre_norm else f"decoder_l{i}_rnn_ffn")
            else:
                self._add_attention(f"decoder_l{i}_self")
            self._add_attention(f"decoder_l{i}_context")
            self._add_feed_forward(f"decoder_l{i}_ffn")
        if self._is_pre_norm:
            self._add_norm("encoder_top", "")
            self._add_norm("decoder_top", "")

    @property
    def _is_recurrent(self) -> bool:
        return bool(self.options["transformer-decoder-autoreg"] == "rnn")

    @property
    def _is_pre_norm(self) -> bool:
        return bool(self.options["transformer-preprocess"])

    @property
    def _suffix(self) -> str:
        return "_pre" if self._is_pre_norm else ""

    def _add(self, name: str, *shape: int) -> None:
        self.parameters[name] = torch.randn(shape, generator=self._random) * (
            0.5 if shape[0] == 1 else 2 / math.sqrt(self._width)
        )

    def _add_norm(self, prefix: str, suffix: str | None = None) -> None:
        for part in ("scale", "bias"):
            self._add(f"{prefix}_ln_{part}{self._suffix if suffix is None else suffix}", 1, self._width)

    def _add_attention(self, prefix: str) -> None:
        for letter in "qkvo":
            self._add(f"{prefix}_W{letter}", self._width, self._width)
            self._add(f"{prefix}_b{letter}", 1, self._width)
        self._add_norm(f"{prefix}_Wo")

    def _add_feed_forward(self, prefix: str) -> None:
        for number, shape in (
            ("1", (self._width, self.options["transformer-dim-ffn"])),
            ("2", (self.options["transformer-dim-ffn"], self._width)),
        ):
            self._add(f"{prefix}_W{number}", *shape)
            self._add(f"{prefix}_b{number}", 1, shape[1])
        self._add_norm(f"{prefix}_ffn")

    def _add_embeddings(self, source_size: int, target_size: int) -> None:
        options = self.options
        if options["tied-embeddings-all"] or options["tied-embeddings-src"]:
            self._add("Wemb", target_size, self._width)
        else:
            self._add("encoder_Wemb", source_size, self._width)
            self._add("decoder_Wemb", target_size, self._width)
        if not (options["tied-embeddings-all"] or options["tied-embeddings"]):
            self._add("decoder_ff_logit_out_W", self._width, target_size)
        if not options["output-omit-bias"]:
            self._add("decoder_ff_logit_out_b", 1, target_size)
        if "n" in options["transformer-postprocess-emb"]:
            for side in ("encoder", "decoder"):
                self._add_norm(f"{side}_emb", "_pre")

    # Files

    def write_archive(self, path: Path, **more: Any) -> None:
        configuration = numpy.frombuffer(_yaml(self.options).encode() + b"\0", dtype=numpy.int8)
        arrays = {name: each.numpy() for name, each in self.parameters.items()}
        with path.open("wb") as file:
            numpy.savez(file, **{**arrays, "special:model.yml": configuration, **more})

    def write_binary(
        self, path: Path, *, quantised: bool, change: Callable[[list["Item"]], object] | None = None
    ) -> None:
        """Write the file; if `quantised`, matrices are int8, and the parameters become their numbers."""
        items = [self._item(name, quantised=quantised) for name in self.parameters]
        if quantised:
            items += [Item(f"{item.name}_QuantMultA", 0x404, [1, 1], struct.pack("<f", 50)) for item in items[:3]]
        configuration = _yaml(self.options).encode() + b"\0"
        items.append(Item("special:model.yml", 0x101, [len(configuration)], configuration))
        if change is not None:
            change(items)
        path.write_bytes(binary(items))

    def _item(self, name: str, *, quantised: bool) -> "Item":
        values = self.parameters[name]
        if not quantised or "_b" in name or "_ln_" in name:
            return Item(name, 0x404, list(values.shape), values.numpy().tobytes())
        multiplier = struct.unpack("<f", struct.pack("<f", 127 / values.abs().max().item()))[0]
        numbers = (values * multiplier).round().to(torch.int8)
        self.parameters[name] = numbers / multiplier
        laid_out = numbers if name.endswith("Wemb") else numbers.T
        data = laid_out.contiguous().numpy().tobytes() + struct.pack("<f", multiplier)
        return Item(name, 0x4101, list(values.shape), data)

    # What Marian computes

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        """`[len(target) + 1, words]`, in float64: of what comes after the start and after each of `target`."""
        encoded = self._embedded("encoder", list(source))
        for i in range(1, self.options["enc-depth"] + 1):
            encoded = self._sublayer(
                f"encoder_l{i}_self_Wo",
                encoded,
                self._attending(f"encoder_l{i}_self"),
            )
            encoded = self._fed_forward(f"encoder_l{i}_ffn", encoded)
        encoded = self._top("encoder", encoded)
        states = self._embedded("decoder", [None, *target])
        for i in range(1, self.options["dec-depth"] + 1):
            if self._is_recurrent:
                norm = f"decoder_l{i}_rnn" if self._is_pre_norm else f"decoder_l{i}_rnn_ffn"
                states = self._sublayer(norm, states, partial(self._recurred, f"decoder_l{i}_rnn"))
            else:
                states = self._sublayer(
                    f"decoder_l{i}_self_Wo",
                    states,
                    self._attending(f"decoder_l{i}_self", causal=True),
                )
            states = self._sublayer(
                f"decoder_l{i}_context_Wo",
                states,
                self._attending(f"decoder_l{i}_context", encoded),
            )
            states = self._fed_forward(f"decoder_l{i}_ffn", states)
        states = self._top("decoder", states)
        if "decoder_ff_logit_out_W" in self.parameters:
            matrix = self._double("decoder_ff_logit_out_W")
        else:
            matrix = self._table("decoder").T
        logits = states @ matrix
        if "decoder_ff_logit_out_b" in self.parameters:
            logits = logits + self._double("decoder_ff_logit_out_b")
        return logits

    def greedy(self, source: Sequence[int], limit: int) -> list[int]:
        """The best tokens, without the unknown one."""
        ids: list[int] = []
        while len(ids) < limit and EOS not in ids:
            last = self.logits(source, ids)[-1]
            last[UNKNOWN] = -math.inf
            ids.append(int(last.argmax()))
        return ids

    def _double(self, name: str) -> Tensor:
        return self.parameters[name].double()

    def _table(self, side: str) -> Tensor:
        return self._double("Wemb" if "Wemb" in self.parameters else f"{side}_Wemb")

    def _embedded(self, side: str, ids: Sequence[int | None]) -> Tensor:
        rows = []
        for position, token in enumerate(ids):
            word = torch.zeros(self._width).double() if token is None else self._table(side)[token]
            half = self._width // 2
            rates = [10000 ** (-i / (half - 1)) for i in range(half)]
            waves = [math.sin(position * rate) for rate in rates] + [math.cos(position * rate) for rate in rates]
            rows.append(word * math.sqrt(self._width) + torch.tensor(waves, dtype=torch.float64))
        states = torch.stack(rows)
        if "n" in self.options["transformer-postprocess-emb"]:
            states = self._normed(f"{side}_emb", states, "_pre")
        return states

    def _normed(self, prefix: str, states: Tensor, suffix: str) -> Tensor:
        mean, variance = states.mean(-1, keepdim=True), states.var(-1, unbiased=False, keepdim=True)
        scale, bias = (self._double(f"{prefix}_ln_{part}{suffix}") for part in ("scale", "bias"))
        return (states - mean) / (variance + 1e-6).sqrt() * scale + bias

    def _sublayer(self, norm: str, states: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        if self._is_pre_norm:
            return states + function(self._normed(norm, states, "_pre"))
        return self._normed(norm, states + function(states), "")

    def _top(self, side: str, states: Tensor) -> Tensor:
        return self._normed(f"{side}_top", states, "") if self._is_pre_norm else states

    def _affine(self, prefix: str, suffix: str, states: Tensor) -> Tensor:
        return states @ self._double(f"{prefix}_W{suffix}") + self._double(f"{prefix}_b{suffix}")

    def _fed_forward(self, prefix: str, states: Tensor) -> Tensor:
        activation = {"relu": torch.relu, "swish": torch.nn.functional.silu}[self.options["transformer-ffn-activation"]]
        return self._sublayer(
            f"{prefix}_ffn", states, lambda x: self._affine(prefix, "2", activation(self._affine(prefix, "1", x)))
        )

    def _attending(
        self, prefix: str, others: Tensor | None = None, *, causal: bool = False
    ) -> Callable[[Tensor], Tensor]:
        """Attention over `others`, or over the states themselves."""
        return lambda states: self._attended(prefix, states, states if others is None else others, causal=causal)

    def _attended(self, prefix: str, states: Tensor, others: Tensor, *, causal: bool) -> Tensor:
        size = self._width // self._heads
        query, key, value = (
            self._affine(prefix, letter, each) for letter, each in (("q", states), ("k", others), ("v", others))
        )
        rows = []
        for position in range(len(states)):
            seen = position + 1 if causal else len(others)
            parts = []
            for head in range(self._heads):
                own = slice(head * size, (head + 1) * size)
                weights = (key[:seen, own] @ query[position, own] / math.sqrt(size)).softmax(0)
                parts.append(weights @ value[:seen, own])
            rows.append(torch.cat(parts))
        return self._affine(prefix, "o", torch.stack(rows))

    def _recurred(self, prefix: str, states: Tensor) -> Tensor:
        cell, rows = torch.zeros(self._width).double(), []
        for state in states:
            forget = torch.sigmoid(self._affine(prefix, "f", state)).flatten()
            cell = forget * cell + (1 - forget) * (state @ self._double(f"{prefix}_W"))
            rows.append(torch.relu(cell))
        return torch.stack(rows)


class Item:
    """An item of a binary file, which tests may change before it is written."""

    def __init__(self, name: str, kind: int, shape: list[int], data: bytes) -> None:
        self.name, self.kind, self.shape, self.data = name, kind, shape, data


def binary(items: Sequence[Item]) -> bytes:
    """Marian's binary format; data are padded where Marian pads them."""
    for item in items:
        if item.kind != 0x101:
            item.data += bytes(-len(item.data) % _ALIGNMENT)
    names = [item.name.encode() + b"\0" for item in items]
    content = struct.pack("<QQ", 1, len(items))
    for item, name in zip(items, names, strict=True):
        content += struct.pack("<4Q", len(name), item.kind, len(item.shape), len(item.data))
    content += b"".join(names) + b"".join(struct.pack(f"<{len(item.shape)}i", *item.shape) for item in items)
    padding = -(len(content) + 8) % _ALIGNMENT
    return content + struct.pack("<Q", padding) + bytes(padding) + b"".join(item.data for item in items)


def _yaml(options: dict[str, Any]) -> str:
    """JSON is YAML."""
    return json.dumps(options)


def write_tiny(directory: Path, vocabulary: bytes, **options: Any) -> MarianModel:
    """A model as Firefox has it, with its SentencePiece model."""
    size = size_of(vocabulary)
    model = MarianModel(size, size, **options)
    directory.mkdir(exist_ok=True)
    model.write_binary(directory / MODEL, quantised=True)
    (directory / "vocab.enpt.spm").write_bytes(vocabulary)
    return model
