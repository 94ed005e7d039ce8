"""What the weights of a model are: its shape and its special token ids, validated when built."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

NormOrder = Literal["pre", "post"]
Activation = Literal["relu", "gelu", "swish"]


class ModelConfig(BaseModel):
    """Shape of an encoder-decoder transformer; frozen, and refused when it contradicts itself.

    Defaults are those of `Attention Is All You Need` (Vaswani et al. 2017), except for the
    pre-norm residuals, which train without a delicate warm-up (Xiong et al. 2020).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    vocab_size: int = Field(gt=3)
    d_model: int = Field(default=512, gt=0)
    ffn_dim: int = Field(default=2048, gt=0)
    num_heads: int = Field(default=8, gt=0)
    encoder_layers: int = Field(default=6, gt=0)
    decoder_layers: int = Field(default=6, gt=0)
    max_positions: int = Field(default=256, gt=1, description="longest source or target, in tokens")
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0, description="of embeddings and sublayers' results")
    attention_dropout: float = Field(default=0.0, ge=0.0, lt=1.0, description="of attention weights")
    norm_order: NormOrder = "pre"
    activation: Activation = "relu"
    pad_id: int = Field(default=0, ge=0)
    bos_id: int = Field(default=1, ge=0, description="first decoder input")
    eos_id: int = Field(default=2, ge=0)

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        problems = []
        if self.d_model % self.num_heads:
            problems.append(f"d_model ({self.d_model}) must be a multiple of num_heads ({self.num_heads})")
        problems += [
            f"{name} ({value}) must be below vocab_size ({self.vocab_size})"
            for name, value in (("pad_id", self.pad_id), ("bos_id", self.bos_id), ("eos_id", self.eos_id))
            if value >= self.vocab_size
        ]
        if self.pad_id == self.eos_id:
            problems.append("pad_id and eos_id must differ")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def head_dim(self) -> int:
        return self.d_model // self.num_heads
