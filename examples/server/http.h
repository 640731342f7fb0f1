// HTTP in front of both APIs: who may ask (key, host, origin), bodies, errors in the API's own shape,
// streams, and whether the client is still there.
#pragma once
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "errors.h"
#include "metrics.h"
#include "settings.h"

namespace server {

using json = nlohmann::ordered_json;

std::string text_of(const json& value);  // on one line, always valid UTF-8
void reply(httplib::Response& response, const json& value, int status = 200);
json read_body(const std::string& body);  // an object, or HttpError 400

// Sees that the other end of a request's connection closed, also while nothing is sent.
class Peer {
  public:
    Peer(const httplib::Request& request, const class Http& http);
    bool gone() const;

  private:
    int socket_ = -1;
    const Http* http_;
};

// Lines or events of a streamed answer.
class Writer {
  public:
    explicit Writer(httplib::DataSink& sink) : sink_(sink) {}
    void write(const std::string& text) const;  // throws ClientGone
    void line(const json& value) const { write(text_of(value) + "\n"); }
    void event(const json& value) const { write("data: " + text_of(value) + "\n\n"); }

  private:
    httplib::DataSink& sink_;
};
// Sends what `produce` writes, in chunks. An exception in it ends the stream; `late` writes the error.
void stream(httplib::Response& response, const char* type, std::function<void(Writer&)> produce,
            std::function<void(Writer&, const std::exception&)> late);

class Http {
  public:
    Http(const Settings& settings, Metrics& metrics, std::atomic<bool>& stopping);
    using Handler = std::function<void(const httplib::Request&, const std::string& body, httplib::Response&)>;
    void get(const std::string& path, Handler handler);
    void post(const std::string& path, Handler handler);
    void remove(const std::string& path, Handler handler);  // DELETE
    // POST of a body of any size: the handler takes it piece by piece.
    using Upload =
        std::function<void(const httplib::Request&, const httplib::ContentReader& body, httplib::Response&)>;
    void upload(const std::string& path, Upload handler);
    httplib::Server& server() { return server_; }
    const std::atomic<bool>& stopping() const { return stopping_; }
    int bind();  // to the settings' address; the port, or -1
    // No new connections and requests; those that are being answered go on.
    void drain();
    // Ends connections that took too long to say what they want; to be called now and then.
    void sweep();

  private:
    bool admit(const httplib::Request& request, httplib::Response& response) const;
    bool allowed_origin(const std::string& origin) const;
    bool allowed_host(const std::string& host) const;
    void run(const std::function<void()>& handler, const httplib::Request& request,
             httplib::Response& response);
    void run_with_body(const Handler& handler, const httplib::Request& request,
                       const httplib::ContentReader& reader, httplib::Response& response);
    void know(const std::string& method, const std::string& path);

    const Settings& settings_;
    Metrics& metrics_;
    std::atomic<bool>& stopping_;
    std::mutex busy_mutex_;
    std::set<std::string> busy_;  // far ends whose request is being answered
    std::map<std::string, std::chrono::steady_clock::time_point> quiet_;  // since when others are not
    std::chrono::steady_clock::time_point next_sweep_;
    httplib::Server server_;
    int port_ = -1;
    std::vector<std::pair<std::string, std::regex>> routes_;  // method, path
};

}  // namespace server
