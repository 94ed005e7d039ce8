"""The shape of a model and its special token ids, validated when built."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

NormOrder = Literal["pre", "post"]
Norm = Literal["layer", "rms"]
Activation = Literal["relu", "gelu", "gelu_tanh", "swish"]
Positions = Literal["sinusoidal", "table", "relative"]
DecoderMemory = Literal["self_attention", "ssru"]


class ModelConfig(BaseModel):
    """Shape of an encoder-decoder transformer; frozen, and refused when it contradicts itself.

    Defaults are those of `Attention Is All You Need` (Vaswani et al. 2017), except for the
    pre-norm residuals, which train without a delicate warm-up (Xiong et al. 2020). What differs from
    them is there for public checkpoints (`model/formats`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # The upper limits are far above any model: a file that says more was made to take all memory.
    vocab_size: int = Field(gt=3, le=10_000_000)
    d_model: int = Field(default=512, gt=0, le=65_536)
    ffn_dim: int = Field(default=2048, gt=0, le=1_000_000)
    num_heads: int = Field(default=8, gt=0, le=1024)
    encoder_layers: int = Field(default=6, gt=0, le=1000)
    decoder_layers: int = Field(default=6, gt=0, le=1000)
    max_positions: int = Field(default=256, gt=1, le=65_536, description="longest source or target, in tokens")
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0, description="of embeddings and sublayers' results")
    attention_dropout: float = Field(default=0.0, ge=0.0, lt=1.0, description="of attention weights")
    norm_order: NormOrder = "pre"
    norm: Norm = Field(default="layer", description="rms: no mean is subtracted and nothing added (T5)")
    norm_epsilon: float = Field(default=1e-5, gt=0.0)
    activation: Activation = "relu"
    gated: bool = Field(default=False, description="a second inner projection multiplies the activation (Shazeer 2020)")
    biases: bool = Field(default=True, description="in attention and feed-forward layers")
    head_size: int | None = Field(
        default=None, gt=0, le=65_536, description="of queries, keys and values; None: d_model / heads"
    )
    positions: Positions = Field(
        default="sinusoidal",
        description="sinusoidal: computed; table: stored, one for each side; relative: biases of attention (T5)",
    )
    relative_buckets: int = Field(
        default=32, ge=4, le=65_536, description="distances that relative positions tell apart"
    )
    relative_distance: int = Field(default=128, ge=2, description="from here on, all are in the last of the buckets")
    decoder_memory: DecoderMemory = Field(
        default="self_attention",
        description="how a decoder layer knows earlier positions; ssru: a recurrent state (Kim et al. 2019)",
    )
    scale_embedding: bool = Field(default=True, description="multiply embeddings by sqrt(d_model)")
    embedding_norm: bool = Field(default=False, description="normalise embeddings with their positions")
    source_vocab_size: int | None = Field(
        default=None,
        gt=3,
        le=10_000_000,
        description="where source and target have vocabularies of their own; vocab_size is the target's",
    )
    tied_projection: bool = Field(default=True, description="the output projection is the target embedding")
    projection_bias: bool = False
    pad_id: int = Field(default=0, ge=0)
    bos_id: int = Field(default=1, ge=0, description="first decoder input")
    eos_id: int = Field(default=2, ge=0)

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        problems = []
        if self.head_size is None and self.d_model % self.num_heads:
            problems.append(f"d_model ({self.d_model}) must be a multiple of num_heads ({self.num_heads})")
        problems += [
            f"{name} ({value}) must be below vocab_size ({self.vocab_size})"
            for name, value in (("pad_id", self.pad_id), ("bos_id", self.bos_id), ("eos_id", self.eos_id))
            if value >= self.vocab_size
        ]
        if self.source_vocab_size is not None and self.pad_id >= self.source_vocab_size:
            problems.append(f"pad_id ({self.pad_id}) must be below source_vocab_size ({self.source_vocab_size})")
        if self.pad_id == self.eos_id:
            problems.append("pad_id and eos_id must differ")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def head_dim(self) -> int:
        return self.head_size or self.d_model // self.num_heads

    @property
    def self_attention_layers(self) -> int:
        """The number of decoder layers whose self-attention can be inspected."""
        return self.decoder_layers if self.decoder_memory == "self_attention" else 0
