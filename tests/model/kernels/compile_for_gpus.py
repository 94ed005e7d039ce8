"""Compile the Triton kernels for a GPU that is not here: its capability and the type of K/V are the arguments."""

import sys

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from model.kernels.gpu import _attend, _peak

capability, dtype = sys.argv[1:]
numbers = {
    "scale": "fp32",
    **dict.fromkeys(["row_stride", "query_head_stride", "head_stride", "position_stride", "origins_stride"], "i32"),
    "slot_stride": "i32",
}
pointers = {**dict.fromkeys(["query", "keys", "values", "mixed"], f"*{dtype}"), "slots": "*i64", "lengths": "*i64"}
sources = []
for has_origins in (False, True):
    constants = {"HEAD_DIM": 24, "COLUMNS": 32, "POSITIONS": 64, "HAS_ORIGINS": has_origins}
    given = {**numbers, **pointers, "origins": "*i32" if has_origins else "*i64"}
    types = {name: given.get(name, "constexpr") for name in _attend.arg_names}
    sources.append(ASTSource(_attend, types, constants))
results = {"tokens": "*i64", **dict.fromkeys(["logits", "values", "logprobs"], "*fp32")}
types = {**results, **dict.fromkeys(["row_stride", "size"], "i32"), "LOGITS": "constexpr"}
sources.append(ASTSource(_peak, types, {"LOGITS": 4096}))
for each in sources:
    compiled = compile(each, target=GPUTarget("cuda", int(capability), 32))
    assert len(compiled.asm["cubin"]) > 1000
    print("compiled")
