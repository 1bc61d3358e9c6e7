// Input as CppTrader's programs use it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <unistd.h>
namespace CppCommon {
struct Reader {
    virtual ~Reader() {}
    virtual size_t Read(void* buffer, size_t size) = 0;
};
struct StdInput : Reader {
    size_t Read(void* buffer, size_t size) override
    {
        ssize_t read = ::read(0, buffer, size);
        return read < 0 ? 0 : (size_t)read;
    }
};
}
