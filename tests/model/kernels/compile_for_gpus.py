"""Compile the Triton kernels for a GPU that is not here: its capability and the type of K/V are the arguments."""

import sys

from triton import next_power_of_2
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
for head_dim in (24, 64):
    for has_origins in (False, True):
        constants = {
            "HEAD_DIM": head_dim,
            "COLUMNS": next_power_of_2(head_dim),
            "POSITIONS": 64,
            "HAS_ORIGINS": has_origins,
        }
        given = {**numbers, **pointers, "origins": "*i32" if has_origins else "*i64"}
        if not has_origins:
            # A launch makes a constant of a 1.
            constants["origins_stride"] = 1
            del given["origins_stride"]
        types = {name: given.get(name, "constexpr") for name in _attend.arg_names}
        # A launch says of addresses, and of strides where it is true, that 16 divides them.
        divided = {*pointers, "origins"} | ({*numbers} - {"scale", "origins_stride"} if head_dim == 64 else set())
        divisible = {(number,): [["tt.divisibility", 16]] for number, name in enumerate(types) if name in divided}
        sources.append(ASTSource(_attend, types, constants, divisible))
results = {"tokens": "*i64", **dict.fromkeys(["logits", "values", "logprobs"], "*fp32")}
types = {**results, **dict.fromkeys(["row_stride", "size"], "i32"), "LOGITS": "constexpr"}
sources.append(ASTSource(_peak, types, {"LOGITS": 4096}))
for each in sources:
    compiled = compile(each, target=GPUTarget("cuda", int(capability), 32))
    assert len(compiled.asm["cubin"]) > 1000
    print("compiled")
