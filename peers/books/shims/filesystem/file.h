// A file as CppTrader's programs use one.
#pragma once
#include "system/stream.h"
#include <fcntl.h>
#include <string>
#include <unistd.h>
namespace CppCommon {
struct Path {
    std::string path;
    explicit Path(const std::string& path) : path(path) {}
};
struct File : Reader {
    Path path;
    int fd = -1;
    explicit File(const Path& path) : path(path) {}
    void Open(bool, bool) { fd = ::open(path.path.c_str(), O_RDONLY); }
    size_t Read(void* buffer, size_t size) override
    {
        ssize_t read = ::read(fd, buffer, size);
        return read < 0 ? 0 : (size_t)read;
    }
};
}
