// What parts.cpp needs of PyTorch, for a program without it.
#pragma once

namespace at {

inline int get_num_threads() { return 1; }

}  // namespace at
