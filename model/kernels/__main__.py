"""`python -m model.kernels`: build the C++ operators next to their source, for an image without a compiler."""

from pathlib import Path

from model.kernels.compiler import build

if __name__ == "__main__":
    print(build(Path(__file__).parent))
