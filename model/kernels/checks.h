// Checks of what a caller passes.

#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace dragoman {

inline std::string text_of(const char* part) { return part; }
inline std::string text_of(const std::string& part) { return part; }
inline std::string text_of(int64_t part) { return std::to_string(part); }

// Throws std::runtime_error with the parts as its message, unless the condition holds.
template <typename... Parts>
inline void require(bool holds, const Parts&... parts) {
  if (!holds) throw std::runtime_error((text_of(parts) + ...));
}

}  // namespace dragoman
