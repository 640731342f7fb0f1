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

// One GET, redirects followed. `start` sees the status that counts and says whether to go on, `take` the
// body.
void get(Address at, const httplib::Headers& headers, const std::function<bool(int status)>& start,
         const std::function<bool(const char*, size_t)>& take) {
    for (int redirects = 0; redirects < 6; ++redirects) {
        httplib::Client client(at.server);
        client.set_connection_timeout(15);
        client.set_read_timeout(60);
        client.set_follow_location(false);
        std::string location;
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
                refused = !guarded([&] { return start(response.status); });
                return !refused;
            },
            [&](const char* data, size_t length) { return guarded([&] { return take(data, length); }); });
        if (thrown) std::rethrow_exception(thrown);
        if (location.empty()) {
            if (result || refused) return;
            throw HttpError(502, fmt::format("{} can't be reached or broke off: {}", at.server,
                                             httplib::to_string(result.error())));
        }
        const bool was_safe = at.server.compare(0, 8, "https://") == 0;
        if (location[0] == '/')
            at.path = location;
        else
            at = split(location);
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
            address_, headers,
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
    uint64_t have_ = 0;
};

}  // namespace

Pull begin_pull(const StoreName& name, const std::string& default_registry, bool insecure) {
    Pull pull;
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
        {{"Accept", manifest_types}},
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
