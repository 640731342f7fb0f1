// See http.h. A thread for each connection, made when needed, up to a limit.
#include "http.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <list>
#include <thread>

namespace server {
namespace {

class ConnectionThreads final : public httplib::TaskQueue {
  public:
    explicit ConnectionThreads(size_t most) : most_(most) {}
    void enqueue(std::function<void()> function) override {
        std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(function));
        if (idle_ < waiting_.size() && threads_.size() < most_) threads_.emplace_back([this] { work(); });
        arrived_.notify_one();
    }
    void shutdown() override {
        {
            std::lock_guard lock(mutex_);
            ending_ = true;
        }
        arrived_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

  private:
    void work() {
        std::unique_lock lock(mutex_);
        for (;;) {
            ++idle_;
            arrived_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
            --idle_;
            if (waiting_.empty()) return;
            const std::function<void()> function = std::move(waiting_.front());
            waiting_.pop_front();
            lock.unlock();
            function();
            lock.lock();
        }
    }
    const size_t most_;
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::list<std::function<void()>> waiting_;
    std::vector<std::thread> threads_;
    size_t idle_ = 0;
    bool ending_ = false;
};

// "http://localhost:*" style: * stands for anything.
bool matches(std::string_view pattern, std::string_view text) {
    if (pattern.empty()) return text.empty();
    if (pattern[0] == '*')
        return matches(pattern.substr(1), text) || (!text.empty() && matches(pattern, text.substr(1)));
    return !text.empty() && pattern[0] == text[0] && matches(pattern.substr(1), text.substr(1));
}

bool is_open_path(const std::string& path) {
    return path == "/health" || path == "/v1/health" || path == "/" || path == "/page.css" ||
           path == "/page.js" || path == "/favicon.ico";
}

std::string error_type(int status) {
    switch (status) {
        case 401:
            return "authentication_error";
        case 403:
            return "permission_error";
        case 404:
            return "not_found_error";
        case 501:
            return "not_supported_error";
        case 503:
            return "unavailable_error";
        default:
            return status < 500 ? "invalid_request_error" : "api_error";
    }
}

bool is_ollama(const std::string& path) {
    return path.compare(0, 5, "/api/") == 0;
}

void reply_error(const httplib::Request& request, httplib::Response& response, int status,
                 const std::string& message, const std::string& type = {}) {
    if (status == 503) response.set_header("Retry-After", "1");
    if (is_ollama(request.path)) return reply(response, {{"error", message}}, status);
    reply(response,
          {{"error",
            {{"message", message},
             {"type", type.empty() ? error_type(status) : type},
             {"param", nullptr},
             {"code", request.path.compare(0, 4, "/v1/") == 0 ? json(nullptr) : json(status)}}}},
          status);
}

// The far end of a request's connection, as far_end of its descriptor says it.
std::string far_end(const httplib::Request& request) {
    return fmt::format("{} {}", request.remote_addr, request.remote_port);
}

bool equal_secrets(const std::string& a, const std::string& b) {
    unsigned difference = a.size() == b.size() ? 0 : 1;
    for (size_t i = 0; i < a.size(); ++i)
        difference |=
            unsigned(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i % b.size()]));
    return difference == 0;
}

}  // namespace

std::string text_of(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

void reply(httplib::Response& response, const json& value, int status) {
    response.status = status;
    response.set_content(text_of(value), "application/json; charset=utf-8");
}

json read_body(const std::string& body) {
    if (body.find_first_not_of(" \t\r\n") == std::string::npos) throw HttpError(400, "missing request body");
    // Depth is bounded before the parser recurses.
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < body.size(); ++i) {
        const char c = body[i];
        if (quoted) {
            if (c == '\\') ++i;
            if (c == '"') quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > 200) throw HttpError(400, "the request nests deeper than 200 levels");
        } else if (c == ']' || c == '}') {
            --depth;
        }
    }
    try {
        json value = json::parse(body);
        if (!value.is_object()) throw HttpError(400, "the request must be a JSON object");
        return value;
    } catch (const json::exception& error) {
        throw HttpError(400, std::string("the request is not valid JSON: ") + error.what());
    }
}

namespace {

// The far end of a connection as httplib writes it; empty if the descriptor is none.
std::string far_end(int fd) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
    char text[INET6_ADDRSTRLEN] = {};
    int port = 0;
    if (address.ss_family == AF_INET) {
        const auto* four = reinterpret_cast<const sockaddr_in*>(&address);
        inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
        port = ntohs(four->sin_port);
    } else if (address.ss_family == AF_INET6) {
        const auto* six = reinterpret_cast<const sockaddr_in6*>(&address);
        inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
        port = ntohs(six->sin6_port);
    }
    return fmt::format("{} {}", text, port);
}

// The library keeps its sockets to itself, so they are looked up among this program's.
template <typename Function>
void visit_descriptors(Function&& function) {
    DIR* folder = opendir("/proc/self/fd");
    if (!folder) return;
    while (const dirent* entry = readdir(folder)) {
        const int fd = std::atoi(entry->d_name);
        if (fd > 2 && !function(fd)) break;
    }
    closedir(folder);
}

int local_port(int fd) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return -1;
    if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
    if (address.ss_family == AF_INET6)
        return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
    return -1;
}

}  // namespace

Peer::Peer(const httplib::Request& request, const Http& http) : http_(&http) {
    const std::string wanted = far_end(request);
    visit_descriptors([&](int fd) {
        if (far_end(fd) != wanted) return true;
        socket_ = fd;
        return false;
    });
}

bool Peer::gone() const {
    if (http_->stopping()) return true;
    if (socket_ < 0) return false;
    char byte = 0;
    const ssize_t n = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

// Connections that wait for their next request would otherwise hold up the end until they time out.
void Http::drain() {
    server_.stop();
    std::lock_guard lock(busy_mutex_);
    visit_descriptors([&](int fd) {
        const std::string end = local_port(fd) == port_ ? far_end(fd) : std::string();
        if (!end.empty() && !busy_.count(end)) shutdown(fd, SHUT_RD);
        return true;
    });
}

// The library bounds each read, so who sends headers byte by byte would hold a connection for ever. A request
// that waits for a thread has bytes to be read, and is no such.
void Http::sweep() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_sweep_) return;
    next_sweep_ = now + std::chrono::seconds(1);
    const auto limit = std::chrono::seconds(settings_.header_seconds);
    std::lock_guard lock(busy_mutex_);
    std::map<std::string, std::chrono::steady_clock::time_point> quiet;
    visit_descriptors([&](int fd) {
        const std::string end = local_port(fd) == port_ ? far_end(fd) : std::string();
        if (end.empty() || busy_.count(end)) return true;
        const auto known = quiet_.find(end);
        const auto since = known == quiet_.end() ? now : known->second;
        quiet[end] = since;
        int unread = 0;
        if (now - since > limit && ioctl(fd, FIONREAD, &unread) == 0 && unread == 0) shutdown(fd, SHUT_RDWR);
        return true;
    });
    quiet_ = std::move(quiet);
}

int Http::bind() {
    port_ = settings_.port;
    if (port_ == 0)
        port_ = server_.bind_to_any_port(settings_.host);
    else if (!server_.bind_to_port(settings_.host, port_))
        port_ = -1;
    // The library lets five connections wait to be accepted; of a crowd the others would be lost or late.
    visit_descriptors([&](int fd) {
        int listening = 0;
        socklen_t length = sizeof listening;
        if (port_ > 0 && local_port(fd) == port_ &&
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening != 0)
            listen(fd, 1024);
        return true;
    });
    return port_;
}

void Writer::write(const std::string& text) const {
    if (!sink_.write(text.data(), text.size())) throw ClientGone();
}

void stream(httplib::Response& response, const char* type, std::function<void(Writer&)> produce,
            std::function<void(Writer&, const std::exception&)> late) {
    response.set_header("Cache-Control", "no-cache");
    response.set_header("X-Accel-Buffering", "no");
    response.set_chunked_content_provider(
        type, [produce = std::move(produce), late = std::move(late)](size_t, httplib::DataSink& sink) {
            Writer writer(sink);
            try {
                try {
                    produce(writer);
                } catch (const ClientGone&) {
                    throw;
                } catch (const std::exception& error) {
                    late(writer, error);
                }
            } catch (const std::exception&) {
                return false;
            }
            sink.done();
            return true;
        });
}

Http::Http(const Settings& settings, Metrics& metrics, std::atomic<bool>& stopping)
    : settings_(settings), metrics_(metrics), stopping_(stopping) {
    server_.new_task_queue = [most = size_t(settings.max_connections)] {
        return new ConnectionThreads(most);
    };
    server_.set_payload_max_length(size_t(1) << 50);  // uploads; other bodies have their own limit
    server_.set_read_timeout(30);
    server_.set_write_timeout(60);
    server_.set_keep_alive_max_count(1000);
    server_.set_keep_alive_timeout(5);
    server_.set_tcp_nodelay(true);
    server_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
        {
            std::lock_guard lock(busy_mutex_);
            busy_.insert(far_end(request));
            quiet_.erase(far_end(request));
        }
        return admit(request, response) ? httplib::Server::HandlerResponse::Unhandled
                                        : httplib::Server::HandlerResponse::Handled;
    });
    server_.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
        if (!response.body.empty() || response.status == 403) return;
        switch (response.status) {
            case 404:
                if (!is_ollama(request.path) && request.path.compare(0, 4, "/v1/") != 0)
                    return response.set_content("404 page not found", "text/plain");
                return reply_error(request, response, 404, "no such path: " + request.path);
            case 413:
                return reply_error(request, response, 413, "the request body is too long");
            default:
                reply_error(request, response, response.status, "the request is malformed");
        }
    });
    server_.set_exception_handler(
        [](const httplib::Request& request, httplib::Response& response, const std::exception_ptr&) {
            reply_error(request, response, 500, "internal error");
        });
    server_.set_logger([this](const httplib::Request& request, const httplib::Response& response) {
        {
            std::lock_guard lock(busy_mutex_);
            busy_.erase(far_end(request));
        }
        metrics_.count(response.status == 404 ? "(unknown)" : request.path, response.status);
        if (settings_.debug)
            std::fprintf(stderr, "%s %s %d\n", request.method.c_str(), request.path.c_str(), response.status);
    });
}

bool Http::allowed_origin(const std::string& origin) const {
    for (const std::string& pattern : settings_.origins)
        if (matches(pattern, origin)) return true;
    for (const char* host : {"localhost", "127.0.0.1", "0.0.0.0", "[::1]"})
        for (const char* scheme : {"http://", "https://"}) {
            const std::string plain = std::string(scheme) + host;
            if (origin == plain || matches(plain + ":*", origin)) return true;
        }
    for (const char* scheme : {"app://", "file://", "tauri://", "vscode-webview://", "vscode-file://"})
        if (origin.compare(0, std::strlen(scheme), scheme) == 0) return true;
    return false;
}

// Against pages that make their own name mean 127.0.0.1.
bool Http::allowed_host(const std::string& header) const {
    if (!is_loopback(settings_.host)) return true;
    std::string host = header;
    if (!host.empty() && host[0] == '[')
        host = host.substr(1, host.find(']') - 1);
    else
        host = host.substr(0, host.find(':'));
    if (host.empty() || host == "localhost") return true;
    char own[256] = {};
    if (gethostname(own, sizeof own - 1) == 0 && host == own) return true;
    for (const std::string end : {".localhost", ".local", ".internal"})
        if (host.size() > end.size() && host.compare(host.size() - end.size(), end.size(), end) == 0)
            return true;
    in_addr four{};
    if (inet_pton(AF_INET, host.c_str(), &four) == 1) {
        const uint32_t a = ntohl(four.s_addr);
        return a == 0 || (a >> 24) == 127 || (a >> 24) == 10 || (a >> 16) == 0xc0a8 || (a >> 20) == 0xac1;
    }
    in6_addr six{};
    return inet_pton(AF_INET6, host.c_str(), &six) == 1 &&
           (IN6_IS_ADDR_LOOPBACK(&six) || IN6_IS_ADDR_UNSPECIFIED(&six) || (six.s6_addr[0] & 0xfe) == 0xfc);
}

bool Http::admit(const httplib::Request& request, httplib::Response& response) const {
    const auto refuse = [&](int status) {
        response.status = status;
        response.set_header("Connection", "close");
        return false;
    };
    if (!allowed_host(request.get_header_value("Host"))) return refuse(403);
    if (const std::string origin = request.get_header_value("Origin"); !origin.empty()) {
        const std::string own = "://" + request.get_header_value("Host");
        const bool same =
            origin.size() > own.size() && origin.compare(origin.size() - own.size(), own.size(), own) == 0;
        if (!same && !allowed_origin(origin)) return refuse(403);
        response.set_header("Access-Control-Allow-Origin", origin);
        response.set_header("Vary", "Origin");
        if (request.method == "OPTIONS") {
            response.set_header("Access-Control-Allow-Methods", "GET, POST, DELETE, HEAD, OPTIONS");
            std::string headers = request.get_header_value("Access-Control-Request-Headers");
            response.set_header("Access-Control-Allow-Headers", headers.empty() ? "*" : headers);
            response.set_header("Access-Control-Max-Age", "43200");
            if (request.has_header("Access-Control-Request-Private-Network"))
                response.set_header("Access-Control-Allow-Private-Network", "true");
            response.status = 204;
            return false;
        }
    }
    if (!settings_.api_key.empty() && !is_open_path(request.path)) {
        std::string given = request.get_header_value("Authorization");
        given = given.compare(0, 7, "Bearer ") == 0 ? given.substr(7) : request.get_header_value("X-Api-Key");
        if (!equal_secrets(given, settings_.api_key)) {
            response.set_header("Connection", "close");
            response.set_header("WWW-Authenticate", "Bearer");
            reply_error(request, response, 401, "the API key is missing or wrong");
            return false;
        }
    }
    bool known = false;
    for (const auto& [method, path] : routes_)
        if (std::regex_match(request.path, path)) {
            if (method == request.method || (method == "GET" && request.method == "HEAD")) return true;
            known = true;
        }
    if (!known) return true;
    response.set_header("Connection", "close");
    reply_error(request, response, 405, "method not allowed");
    return false;
}

void Http::run(const std::function<void()>& handler, const httplib::Request& request,
               httplib::Response& response) {
    ++metrics_.processing;
    try {
        handler();
    } catch (const HttpError& error) {
        reply_error(request, response, error.status, error.what(), error.type);
    } catch (const ClientGone& error) {
        reply_error(request, response, 499, error.what());
    } catch (const coterie::Error& error) {
        const int status = http_status_of(error.status());
        reply_error(request, response, status,
                    status == 503 ? "server busy, please try again.  maximum pending requests exceeded"
                                  : error.what());
    } catch (const json::exception& error) {
        reply_error(request, response, 400,
                    std::string("the request has a value of the wrong type: ") + error.what());
    } catch (const std::exception& error) {
        reply_error(request, response, 500, error.what());
    }
    --metrics_.processing;
}

void Http::know(const std::string& method, const std::string& path) {
    routes_.emplace_back(method, std::regex(path));
}

void Http::get(const std::string& path, Handler handler) {
    know("GET", path);
    server_.Get(path, [this, handler](const httplib::Request& request, httplib::Response& response) {
        run([&] { handler(request, {}, response); }, request, response);
    });
}

// Bodies are read as bytes whatever their declared type: clients send JSON as a form.
void Http::run_with_body(const Handler& handler, const httplib::Request& request,
                         const httplib::ContentReader& reader, httplib::Response& response) {
    const size_t most = size_t(settings_.max_body);
    const auto too_long = [&] {
        response.set_header("Connection", "close");  // what is left of the body is not read
        reply_error(request, response, 413, "the request body is too long");
    };
    if (std::strtoull(request.get_header_value("Content-Length").c_str(), nullptr, 10) > most)
        return too_long();
    std::string body;
    bool exceeds = false;
    const bool whole = reader([&](const char* data, size_t length) {
        if ((exceeds = body.size() + length > most)) return false;
        body.append(data, length);
        return true;
    });
    if (whole) return run([&] { handler(request, body, response); }, request, response);
    if (exceeds) too_long();
}

void Http::post(const std::string& path, Handler handler) {
    know("POST", path);
    server_.Post(path, [this, handler](const httplib::Request& request, httplib::Response& response,
                                       const httplib::ContentReader& reader) {
        run_with_body(handler, request, reader, response);
    });
}

void Http::remove(const std::string& path, Handler handler) {
    know("DELETE", path);
    server_.Delete(path, [this, handler](const httplib::Request& request, httplib::Response& response,
                                         const httplib::ContentReader& reader) {
        run_with_body(handler, request, reader, response);
    });
}

void Http::upload(const std::string& path, Upload handler) {
    know("POST", path);
    server_.Post(path, [this, handler](const httplib::Request& request, httplib::Response& response,
                                       const httplib::ContentReader& reader) {
        run([&] { handler(request, reader, response); }, request, response);
    });
}

}  // namespace server
