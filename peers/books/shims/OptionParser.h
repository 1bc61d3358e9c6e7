// The options that CppTrader's programs have: -i FILE.
#pragma once
#include <map>
#include <string>
namespace optparse {
struct Value {
    std::string text;
    bool is_set;
    operator bool() const { return is_set; }
    operator std::string() const { return text; }
};
struct Values {
    std::map<std::string, std::string> values;
    Value get(const std::string& name) { return Value{values[name], false}; }
    bool is_set(const std::string& name) { return !values[name].empty(); }
};
struct OptionParser {
    OptionParser& version(const char*) { return *this; }
    OptionParser& add_option(const char*, const char*) { return *this; }
    OptionParser& dest(const char*) { return *this; }
    OptionParser& help(const char*) { return *this; }
    Values parse_args(int argc, char** argv)
    {
        Values values;
        for (int i = 1; i + 1 < argc; ++i)
            if (std::string(argv[i]) == "-i")
                values.values["input"] = argv[i + 1];
        return values;
    }
    void print_help() {}
};
}
