// The same with the header of C++; ends with 0 when all is as it should be.
#include <quoteway.hpp>

#include <iostream>

#define CHECK(condition)                                                       \
    if (!(condition)) {                                                        \
        std::cerr << "line " << __LINE__ << ": " #condition "\n";              \
        return 1;                                                              \
    }

int main() try {
    auto publisher = qw::publisher::listen("FEED", "127.0.0.1:0");
    publisher.publish("A", {{"BID", 1.25}, {"DSPLY_NAME", std::string(300, 'x').c_str()}, {"ASK", nullptr}});
    publisher.flush();
    qw::session session("127.0.0.1:" + std::to_string(publisher.port()), "me", 30);
    CHECK(session.is_logged_in());
    auto quotes = session.subscribe("FEED", {"A"});
    quotes.set_timeout(30);
    int count = 0;
    for (const auto &message : quotes) {
        CHECK(message.name() == "A" && !message.is_final());
        if (count == 0) {
            CHECK(message.number("BID") == 1.25 && !message.number("ASK"));
            CHECK(message.text("DSPLY_NAME") == std::string(300, 'x'));
            CHECK(message.dump().find("DSPLY_NAME") != std::string::npos);
        } else {
            CHECK(message.number("BID") == count);
        }
        if (++count > 100) break;
        publisher.publish("A", {{"BID", double(count)}});
    }
    CHECK(count == 101 && quotes.counts().queued == 101);
    try {
        publisher.publish("A", {{"BIDD", 1.0}});
        CHECK(false);
    } catch (const qw::error &error) {
        CHECK(error.code() == QW_EFIELD && std::string(error.what()).find("BIDD") != std::string::npos);
    }
    qw_session_options_t options{};
    const auto server = "127.0.0.1:" + std::to_string(publisher.port());
    options.preferred = server.c_str();
    qw::session preferring("127.0.0.1:1," + server, "me", options, 30);
    CHECK(preferring.server() == server && preferring.fall_back() == 0);
    std::cout << "all as it should be\n";
    return 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 2;
}
