// The clock of CppTrader's programs.
#pragma once
#include <chrono>
#include <cstdint>
namespace CppCommon {
struct Timestamp {
    static uint64_t nano()
    {
        auto now = std::chrono::steady_clock::now().time_since_epoch();
        return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    }
};
}
