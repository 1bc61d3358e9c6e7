// Market data in C++17, over quoteway.h: handles that close themselves, exceptions, ranges.
//
//     qw::session session("localhost:14002", "user");
//     for (const auto &message : session.subscribe("DIRECT_FEED", {"IBM.N", "MSFT.O"}))
//         if (auto bid = message.number("BID")) std::cout << message.name() << ' ' << *bid << '\n';
#ifndef QUOTEWAY_HPP
#define QUOTEWAY_HPP

#include "quoteway.h"

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qw {

/// A failure of the library: what() says what, where and what to do, code() is QW_E...
class error : public std::runtime_error {
public:
    error() : std::runtime_error(qw_errmsg()), code_(qw_errnum()) {}
    int code() const noexcept { return code_; }

private:
    int code_;
};

namespace detail {
inline int checked(int result) {
    if (result < 0) throw error();
    return result;
}
struct close {
    void operator()(qw_session_t *p) const noexcept { qw_session_close(p); }
    void operator()(qw_subscription_t *p) const noexcept { qw_subscription_close(p); }
    void operator()(qw_publisher_t *p) const noexcept { qw_publisher_close(p); }
};
inline std::vector<const char *> pointers(const std::vector<std::string> &texts) {
    std::vector<const char *> all;
    for (const auto &text : texts) all.push_back(text.c_str());
    return all;
}
template <class Get> std::string text(Get get) {
    std::string out(128, '\0');
    std::size_t length = 0;
    get(out.data(), out.size(), &length);
    if (length >= out.size()) {
        out.resize(length + 1);
        get(out.data(), out.size(), &length);
    }
    out.resize(length);
    return out;
}
} // namespace detail

/// Data and their type, as long as what they are of.
struct data {
    std::uint8_t container = QW_NO_DATA;
    const std::uint8_t *bytes = nullptr;
    std::size_t length = 0;
};

/// A value of a field to publish or to post.
struct value : qw_value_t {
    value(const char *field, double v) : qw_value_t{field, QW_DOUBLE, 0, 0, v, nullptr} {}
    value(const char *field, std::int64_t v) : qw_value_t{field, QW_INTEGER, 0, v, 0, nullptr} {}
    value(const char *field, const char *v) : qw_value_t{field, QW_TEXT, 0, 0, 0, v} {}
    value(const char *field, std::nullptr_t) : qw_value_t{field, QW_BLANK, 0, 0, 0, nullptr} {}
};

namespace detail {
inline std::vector<qw_value_t> raw(std::initializer_list<value> values) { return {values.begin(), values.end()}; }
} // namespace detail

/// A message, until the next one is taken.
class message {
public:
    message(const qw_subscription_t *from, const qw_message_t &raw) : from_(from), raw_(raw) {}
    std::string_view name() const { return raw_.name; }
    const qw_message_t &raw() const { return raw_; }
    bool is_final() const { return raw_.is_final != 0; }
    /// A field's number; nothing if the message does not have it, or it is blank.
    std::optional<double> number(const char *field) const {
        double value = 0;
        return detail::checked(qw_field_double(from_, field, &value)) == 1 ? std::optional<double>(value) : std::nullopt;
    }
    std::optional<std::int64_t> integer(const char *field) const {
        std::int64_t value = 0;
        return detail::checked(qw_field_integer(from_, field, &value)) == 1 ? std::optional<std::int64_t>(value) : std::nullopt;
    }
    std::optional<std::string> text(const char *field) const {
        int found = 0;
        auto text = detail::text([&](char *to, std::size_t size, std::size_t *length) {
            found = detail::checked(qw_field_text(from_, field, to, size, length));
        });
        return found == 1 ? std::optional<std::string>(std::move(text)) : std::nullopt;
    }
    /// Its data, whatever they are.
    data body() const {
        data body;
        detail::checked(qw_message_body(from_, &body.container, &body.bytes, &body.length));
        return body;
    }
    /// All of it, for people.
    std::string dump() const {
        return detail::text([&](char *to, std::size_t size, std::size_t *length) {
            detail::checked(qw_message_text(from_, to, size, length));
        });
    }

private:
    const qw_subscription_t *from_;
    qw_message_t raw_;
};

/// Items that are watched: a range of messages, which ends when nothing has come for the time of set_timeout.
class subscription {
public:
    explicit subscription(qw_subscription_t *handle) : handle_(handle) {}

    /// The next message; nothing when the time is over. A negative one has no end.
    std::optional<message> next(double timeout_s = -1.0) {
        qw_message_t raw{};
        if (detail::checked(qw_next(handle_.get(), timeout_s, &raw)) == 0) return std::nullopt;
        return message(handle_.get(), raw);
    }
    void set_timeout(double seconds) { timeout_s_ = seconds; }
    /// Pauses an item, by its place, or goes on with it.
    void pause(std::uint32_t item, bool is_paused = true) { detail::checked(qw_pause(handle_.get(), item, is_paused)); }
    /// Asks for another priority; false: the item has ended.
    bool set_priority(std::uint32_t item, std::uint8_t priority_class, std::uint16_t count = 1) {
        return detail::checked(qw_set_priority(handle_.get(), item, priority_class, count)) == 1;
    }
    /// Posts to an item, by its place; the number under which session::next_answer gives the answer.
    std::uint32_t post(std::uint32_t item, std::initializer_list<value> values) {
        std::uint32_t id = 0;
        const auto all = detail::raw(values);
        detail::checked(qw_post(handle_.get(), item, all.data(), all.size(), &id));
        return id;
    }
    /// Sends the provider of an item a generic message; false: the item is not open.
    bool send_generic(std::uint32_t item, const data &body) {
        return detail::checked(qw_send_generic(handle_.get(), item, body.container, body.bytes, body.length)) == 1;
    }
    qw_counts_t counts() const {
        qw_counts_t counts{};
        detail::checked(qw_subscription_counts(handle_.get(), &counts));
        return counts;
    }

    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = message;
        using difference_type = std::ptrdiff_t;
        using pointer = const message *;
        using reference = const message &;

        iterator() = default;
        explicit iterator(subscription *of) : of_(of) { ++*this; }
        reference operator*() const { return *now_; }
        pointer operator->() const { return &*now_; }
        iterator &operator++() {
            now_ = of_->next(of_->timeout_s_);
            if (!now_) of_ = nullptr;
            return *this;
        }
        void operator++(int) { ++*this; }
        friend bool operator==(const iterator &a, const iterator &b) { return a.of_ == b.of_; }
        friend bool operator!=(const iterator &a, const iterator &b) { return a.of_ != b.of_; }

    private:
        subscription *of_ = nullptr;
        std::optional<message> now_;
    };
    iterator begin() { return iterator(this); }
    iterator end() { return iterator(); }

private:
    std::unique_ptr<qw_subscription_t, detail::close> handle_;
    double timeout_s_ = -1.0;
};

/// The answer to a post.
struct answer : qw_answer_t {
    std::string text;
    bool is_taken() const { return kind == QW_TAKEN; }
};

/// A session; closed when it goes.
class session {
public:
    session(const std::string &servers, const std::string &user, double timeout_s = 10.0) {
        qw_session_t *handle = nullptr;
        detail::checked(qw_connect(servers.c_str(), user.c_str(), timeout_s, &handle));
        handle_.reset(handle);
    }
    /// With options; servers with | between their lists are connections that are held at the same time.
    session(const std::string &servers, const std::string &user, const qw_session_options_t &options, double timeout_s = 10.0) {
        qw_session_t *handle = nullptr;
        detail::checked(qw_connect_with(servers.c_str(), user.c_str(), &options, timeout_s, &handle));
        handle_.reset(handle);
    }
    subscription subscribe(const std::string &service, const std::vector<std::string> &items, const std::vector<std::string> &fields = {}, qw_options_t options = {}) {
        auto names = detail::pointers(items), wanted = detail::pointers(fields);
        options.fields = wanted.empty() ? nullptr : wanted.data();
        options.field_count = wanted.size();
        qw_subscription_t *handle = nullptr;
        detail::checked(qw_subscribe(handle_.get(), service.c_str(), names.data(), names.size(), &options, &handle));
        return subscription(handle);
    }
    /// The members of a chain, or of a symbol list, as they come and go.
    subscription follow(const std::string &service, const std::string &name, bool is_list, const qw_options_t &options = {}) {
        qw_subscription_t *handle = nullptr;
        detail::checked(qw_follow(handle_.get(), service.c_str(), name.c_str(), is_list, &options, &handle));
        return subscription(handle);
    }
    /// Posts to an item that need not be open.
    std::uint32_t post(const std::string &service, const std::string &item, std::initializer_list<value> values) {
        std::uint32_t id = 0;
        const auto all = detail::raw(values);
        detail::checked(qw_post_off_stream(handle_.get(), service.c_str(), item.c_str(), all.data(), all.size(), &id));
        return id;
    }
    /// The next answer to a post; nothing when the time is over. Its text is cut off at some length.
    std::optional<answer> next_answer(double timeout_s = -1.0) {
        answer next{};
        char text[512];
        if (detail::checked(qw_next_answer(handle_.get(), timeout_s, &next, text, sizeof text, nullptr)) == 0) return std::nullopt;
        next.text = text;
        return next;
    }
    /// Host and port of the server that serves; empty without a connection.
    std::string server() const {
        return detail::text([&](char *to, std::size_t size, std::size_t *length) {
            detail::checked(qw_session_server(handle_.get(), to, size, length));
        });
    }
    /// Leaves servers for the preferred one; how many were left.
    int fall_back() { return detail::checked(qw_session_fall_back(handle_.get())); }
    /// Pauses all that is open, or goes on.
    void pause(bool is_paused = true) { detail::checked(qw_session_pause(handle_.get(), is_paused)); }
    bool is_logged_in() const { return detail::checked(qw_session_status(handle_.get(), nullptr)) == 1; }

private:
    std::unique_ptr<qw_session_t, detail::close> handle_;
};

/// A service of your own; ended when it goes.
class publisher {
public:
    static publisher listen(const std::string &service, const std::string &address, const qw_publisher_options_t &options = {}) {
        qw_publisher_t *handle = nullptr;
        detail::checked(qw_publisher_listen_with(service.c_str(), address.c_str(), &options, &handle));
        return publisher(handle);
    }
    /// With TLS: PEM files of the certificate and its key.
    static publisher listen_encrypted(const std::string &service, const std::string &address, const std::string &certificate, const std::string &key) {
        qw_publisher_t *handle = nullptr;
        detail::checked(qw_publisher_listen_encrypted(service.c_str(), address.c_str(), certificate.c_str(), key.c_str(), &handle));
        return publisher(handle);
    }
    static publisher dial(const std::string &service, const std::string &servers, const std::string &user, const qw_publisher_options_t &options = {}) {
        qw_publisher_t *handle = nullptr;
        detail::checked(qw_publisher_dial_with(service.c_str(), servers.c_str(), user.c_str(), &options, &handle));
        return publisher(handle);
    }
    int port() const { return detail::checked(qw_publisher_port(handle_.get())); }
    void publish(const std::string &item, std::initializer_list<value> values) {
        const auto all = detail::raw(values);
        detail::checked(qw_publish(handle_.get(), item.c_str(), all.data(), all.size()));
    }
    void flush() { detail::checked(qw_publisher_flush(handle_.get())); }
    /// Events that have come to it, until the next call; nothing when the time is over.
    std::optional<qw_event_t> next(double timeout_s = -1.0) {
        qw_event_t event{};
        if (detail::checked(qw_publisher_next(handle_.get(), timeout_s, &event)) == 0) return std::nullopt;
        return event;
    }
    /// Answers the generic message that next has given last.
    void answer(const data &body) { detail::checked(qw_publisher_answer(handle_.get(), body.container, body.bytes, body.length)); }

private:
    explicit publisher(qw_publisher_t *handle) : handle_(handle) {}
    std::unique_ptr<qw_publisher_t, detail::close> handle_;
};

} // namespace qw

#endif
