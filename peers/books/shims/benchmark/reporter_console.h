// How CppTrader's programs print a time.
#pragma once
#include <cstdint>
#include <string>
namespace CppBenchmark {
struct ReporterConsole {
    static std::string GenerateTimePeriod(int64_t nanos) { return std::to_string(nanos) + " ns"; }
};
}
