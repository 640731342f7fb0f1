// Manifests and blobs over HTTP: redirects, ranges, tries.
#include "registry.h"

#include <fmt/format.h>
#include <httplib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "errors.h"

namespace server {
namespace {

namespace fs = std::filesystem;

constexpr size_t most_manifest_bytes = 4 << 20;
constexpr const char* manifest_types =
    "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json";

struct Address {
    std::string server, path;  // scheme://host[:port], /...
};

Address split(const std::string& url) {
    const size_t host = url.find("://");
    const size_t path = host == std::string::npos ? std::string::npos : url.find('/', host + 3);
    if (host == std::string::npos ||
        (url.compare(0, host, "http") != 0 && url.compare(0, host, "https") != 0))
        throw HttpError(502, fmt::format("the registry led to '{}', which is no address", url));
    return {url.substr(0, path), path == std::string::npos ? "/" : url.substr(path)};
}

std::string parameter(const std::string& challenge, const std::string& name) {
    const size_t at = challenge.find(name + "=\"");
    if (at == std::string::npos) return {};
    const size_t from = at + name.size() + 2, to = challenge.find('"', from);
    return challenge.substr(from, to == std::string::npos ? to : to - from);
}

std::string words(httplib::Error error) {
    if (error == httplib::Error::SSLServerVerification)
        return "its certificate is not signed by an authority that this machine trusts; "
               "SSL_CERT_FILE=FILE.pem "
               "names one that is";
    return httplib::to_string(error);
}

// What answers a registry's challenge (RFC 7235; tokens as Docker's registries give them out): a header, or
// none if nothing would. The login, "user:password@host", goes to its own host and to who that names over
// https.
std::pair<std::string, std::string> answer_to(const std::string& challenge, const std::string& registry,
                                              const std::string& login) {
    const size_t at = login.rfind('@'), colon = login.find(':');
    const bool ours = at != std::string::npos && colon < at &&
                      registry.substr(registry.find("://") + 3) == login.substr(at + 1);
    const std::pair<std::string, std::string> basic =
        ours ? httplib::make_basic_authentication_header(login.substr(0, colon),
                                                         login.substr(colon + 1, at - colon - 1))
             : std::pair<std::string, std::string>{};
    if (challenge.compare(0, 6, "Basic ") == 0) return {basic.first, basic.second};
    if (challenge.compare(0, 7, "Bearer ") != 0) return {};
    const Address realm = split(parameter(challenge, "realm"));
    if (realm.server != registry && realm.server.compare(0, 8, "https://") != 0)
        throw HttpError(
            502, fmt::format("the registry asks for a token from '{}', which is not https", realm.server));
    httplib::Params asked;
    for (const char* name : {"service", "scope"})
        if (const std::string value = parameter(challenge, name); !value.empty()) asked.emplace(name, value);
    httplib::Client client(realm.server);
    client.set_connection_timeout(15);
    client.set_read_timeout(60);
    httplib::Headers headers;
    if (ours) headers.insert(basic);
    const auto result = client.Get(httplib::append_query_params(realm.path.c_str(), asked).c_str(), headers);
    if (!result || result->status != 200)
        throw HttpError(result ? 401 : 502,
                        fmt::format("{} gave no token for {}: {}", realm.server, registry,
                                    result ? std::to_string(result->status) : words(result.error())));
    const json given = json::parse(result->body, nullptr, false);
    for (const char* name : {"token", "access_token"})
        if (given.is_object() && given.contains(name) && given[name].is_string())
            return {"Authorization", "Bearer " + given[name].get<std::string>()};
    throw HttpError(502, fmt::format("what {} gave for a token is none", realm.server));
}

// One GET, redirects followed. `start` sees the status that counts and says whether to go on, `take` the
// body.
void get(Address at, httplib::Headers headers, const std::string& login,
         const std::function<bool(int status)>& start, const std::function<bool(const char*, size_t)>& take) {
    bool answered = false;
    for (int redirects = 0; redirects < 6; ++redirects) {
        httplib::Client client(at.server);
        client.set_connection_timeout(15);
        client.set_read_timeout(60);
        client.set_follow_location(false);
        std::string location, challenge;
        bool refused = false;
        std::exception_ptr thrown;  // not through the library's frames
        const auto guarded = [&](auto&& function) {
            try {
                return bool(function());
            } catch (...) {
                thrown = std::current_exception();
                return false;
            }
        };
        const auto result = client.Get(
            at.path.c_str(), headers,
            [&](const httplib::Response& response) {
                if (response.status >= 301 && response.status <= 308 && response.has_header("Location")) {
                    location = response.get_header_value("Location");
                    return false;
                }
                if (response.status == 401 && !answered) {
                    challenge = response.get_header_value("WWW-Authenticate");
                    if (!challenge.empty()) return false;
                }
                refused = !guarded([&] { return start(response.status); });
                return !refused;
            },
            [&](const char* data, size_t length) { return guarded([&] { return take(data, length); }); });
        if (thrown) std::rethrow_exception(thrown);
        if (!challenge.empty()) {
            answered = true;
            if (const auto header = answer_to(challenge, at.server, login); !header.first.empty())
                headers.insert(header);
            continue;
        }
        if (location.empty()) {
            if (result || refused) return;
            throw HttpError(
                502, fmt::format("{} can't be reached or broke off: {}", at.server, words(result.error())));
        }
        const bool was_safe = at.server.compare(0, 8, "https://") == 0;
        if (location[0] == '/')
            at.path = location;
        else if (const Address next = split(location); next.server != at.server) {
            headers.erase("Authorization");  // it was for the registry
            at = next;
        } else {
            at = next;
        }
        if (was_safe && at.server.compare(0, 8, "https://") != 0)
            throw HttpError(502, fmt::format("the registry led from https to '{}'", at.server));
    }
    throw HttpError(502, fmt::format("{} leads from one address to the next", at.server));
}

struct Blob {
    std::string digest;
    uint64_t size = 0;
};

std::vector<Blob> blobs_of(const json& manifest) {
    std::vector<Blob> blobs;
    const auto take = [&](const json& one) {
        Blob blob;
        if (one.is_object() && one.contains("digest") && one["digest"].is_string())
            blob.digest = digest_of(one["digest"]);
        if (blob.digest.empty() || !one.contains("size") || !one["size"].is_number_unsigned())
            throw HttpError(502, "the registry's manifest is damaged: a layer lacks its digest or size");
        blob.size = one["size"].get<uint64_t>();
        blobs.push_back(std::move(blob));
    };
    for (const json& one : manifest["layers"]) take(one);
    if (manifest.contains("config")) take(manifest["config"]);
    return blobs;
}

class Download {
  public:
    Download(const Pull& pull, OwnStore& store, Blob blob, const std::function<void(const json&)>& tell,
             const std::function<bool()>& gone)
        : store_(store), blob_(std::move(blob)), tell_(tell), gone_(gone) {
        login_ = pull.login;
        address_ = {pull.address,
                    fmt::format("/v2/{}/{}/blobs/sha256:{}", pull.name.space, pull.name.model, blob_.digest)};
    }

    void run() {
        const OwnStore::Claim claim(store_, blob_.digest, gone_);
        if (store_.has_blob(blob_.digest)) return report(blob_.size);
        const std::string partial = store_.partial_path(blob_.digest);
        std::error_code error;
        have_ = fs::exists(partial, error) ? fs::file_size(partial, error) : 0;
        if (error || have_ > blob_.size) have_ = 0;
        store_.need_space(blob_.size - have_);
        report(have_);
        for (int failures = 0; have_ < blob_.size || !fs::exists(partial, error);) {
            const uint64_t before = have_;
            try {
                fetch(partial);
                if (have_ < blob_.size) throw HttpError(502, "the registry sent less than it announced");
            } catch (const HttpError& failure) {
                if (failure.status != 502) throw;
                failures = have_ > before ? 1 : failures + 1;
                if (failures >= 4) throw;
                for (int i = 0; i < 5 * failures; ++i) {
                    if (gone_()) throw ClientGone();
                    std::this_thread::sleep_for(std::chrono::milliseconds(100));
                }
            }
        }
        report(blob_.size);
        const std::string actual = hash_file(partial, gone_);
        if (actual != blob_.digest) {
            fs::remove(partial, error);
            throw HttpError(500,
                            fmt::format("digest mismatch, file must be downloaded again: want sha256:{}, "
                                        "got sha256:{}",
                                        blob_.digest, actual));
        }
        fs::rename(partial, store_.blob_path(blob_.digest), error);
        if (error) throw HttpError(500, fmt::format("'{}' can't be renamed: {}", partial, error.message()));
    }

  private:
    void report(uint64_t completed) {
        tell_({{"status", "pulling " + blob_.digest.substr(0, 12)},
               {"digest", "sha256:" + blob_.digest},
               {"total", blob_.size},
               {"completed", completed}});
    }

    void fetch(const std::string& partial) {
        httplib::Headers headers;
        if (have_ > 0) headers.emplace("Range", fmt::format("bytes={}-", have_));
        std::ofstream file;
        file.rdbuf()->pubsetbuf(nullptr, 0);  // what came is on the disk, whatever happens next
        int status = 0;
        auto told = std::chrono::steady_clock::now();
        get(
            address_, headers, login_,
            [&](int got) {
                status = got;
                if (got != 200 && got != 206) return false;
                if (got == 200) have_ = 0;  // it does not do ranges
                file.open(partial,
                          got == 206 ? std::ios::binary | std::ios::app : std::ios::binary | std::ios::trunc);
                return bool(file);
            },
            [&](const char* data, size_t length) {
                if (gone_()) throw ClientGone();
                if (length > blob_.size - have_)
                    throw HttpError(500, fmt::format("the registry sent more than the {} bytes of sha256:{}",
                                                     blob_.size, blob_.digest));
                if (!file.write(data, std::streamsize(length)))
                    throw HttpError(500, fmt::format("'{}' can't be written; is the disk full?", partial));
                have_ += length;
                if (const auto now = std::chrono::steady_clock::now();
                    now - told > std::chrono::milliseconds(100)) {
                    told = now;
                    report(have_);
                }
                return true;
            });
        if (status == 416) {  // what is here is not a beginning of it
            file.close();
            std::error_code error;
            fs::remove(partial, error);
            have_ = 0;
            throw HttpError(502, "the registry refused to go on");
        }
        if (status == 404)
            throw HttpError(404, fmt::format("the registry lacks sha256:{} of this model", blob_.digest));
        if (status != 200 && status != 206)
            throw HttpError(status >= 500 || status == 429 ? 502 : 500,
                            fmt::format("the registry answered {} for sha256:{}", status, blob_.digest));
        if (!file.is_open()) throw HttpError(500, fmt::format("'{}' can't be written", partial));
    }

    OwnStore& store_;
    const Blob blob_;
    const std::function<void(const json&)>& tell_;
    const std::function<bool()>& gone_;
    Address address_;
    std::string login_;
    uint64_t have_ = 0;
};

}  // namespace

Pull begin_pull(const StoreName& name, const std::string& default_registry, bool insecure,
                const std::string& login) {
    Pull pull;
    pull.login = login;
    pull.name = name;
    if (!name.has_host)
        pull.address = default_registry;
    else
        pull.address = (name.scheme.empty() ? insecure ? "http" : "https" : name.scheme) + "://" + name.host;
    if (name.has_host && pull.address.compare(0, 7, "http://") == 0 && !insecure)
        throw HttpError(400, "insecure protocol http: ask with \"insecure\": true if that is meant");
    int status = 0;
    std::string& text = pull.text;
    get(
        {pull.address, fmt::format("/v2/{}/{}/manifests/{}", name.space, name.model, name.tag)},
        {{"Accept", manifest_types}}, login,
        [&](int got) {
            status = got;
            return got == 200;
        },
        [&](const char* data, size_t length) {
            text.append(data, length);
            return text.size() <= most_manifest_bytes;
        });
    if (status == 404)
        throw HttpError(
            404, fmt::format("pull model manifest: {} has no model {}", pull.address, name.shortest()));
    if (status == 401 || status == 403)
        throw HttpError(401,
                        fmt::format("pull model manifest: {} does not let {} be read; COTERIE_REGISTRY_LOGIN="
                                    "user:password@host logs in there",
                                    pull.address, name.shortest()));
    if (status != 200)
        throw HttpError(500, fmt::format("pull model manifest: {} answered {}", pull.address, status));
    pull.manifest = json::parse(text, nullptr, false);
    if (!pull.manifest.is_object() || !pull.manifest.contains("layers") ||
        !pull.manifest["layers"].is_array())
        throw HttpError(502, fmt::format("pull model manifest: what {} sent is none", pull.address));
    blobs_of(pull.manifest);
    return pull;
}

void finish_pull(const Pull& pull, OwnStore& store, const std::function<void(const json&)>& tell,
                 const std::function<bool()>& gone) {
    tell({{"status", "pulling manifest"}});
    const std::vector<Blob> blobs = blobs_of(pull.manifest);
    std::vector<std::string> digests;
    for (const Blob& blob : blobs) digests.push_back(blob.digest);
    const OwnStore::Keep keep(store, digests);
    for (const Blob& blob : blobs) Download(pull, store, blob, tell, gone).run();
    tell({{"status", "verifying sha256 digest"}});
    tell({{"status", "writing manifest"}});
    store.write_manifest(pull.name, pull.text);
    tell({{"status", "success"}});
}

}  // namespace server
