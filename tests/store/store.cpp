// Stores made in a temporary folder, as the programs that own them would leave them; hashes from FIPS 180-4's
// examples and from `sha256sum`.
#include "store/store.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "store/model_name.h"
#include "store/sha256.h"

using namespace coterie;
using namespace coterie::store;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
}

std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// A home folder of its own for each test.
class Home {
  public:
    Home() {
        char name[] = "/tmp/coterie-store-XXXXXX";
        path = ::mkdtemp(name);
        setenv("HOME", path.c_str(), 1);
        for (const char* variable :
             {"OLLAMA_MODELS", "HF_HOME", "HF_HUB_CACHE", "COTERIE_MODELS", "XDG_DATA_HOME"})
            unsetenv(variable);
    }
    ~Home() {
        std::error_code ignored;
        fs::remove_all(path, ignored);
    }
    fs::path models() const { return path / ".ollama" / "models"; }
    fs::path blob(const std::string& text) const {
        return models() / "blobs" / ("sha256-" + sha256_hex(text));
    }

    // Puts a blob into the store; gives its layer.
    nlohmann::json layer(const std::string& type, const std::string& text) const {
        write(blob(text), text);
        return {{"mediaType", "application/vnd.ollama.image." + type},
                {"digest", "sha256:" + sha256_hex(text)},
                {"size", text.size()}};
    }
    void manifest(const std::string& path_in_manifests, const nlohmann::json& layers) const {
        const std::string config =
            R"({"model_format":"gguf","model_family":"qwen3","model_families":["qwen3"],"model_type":"147.0K","file_type":"F32"})";
        nlohmann::json manifest{{"schemaVersion", 2}, {"layers", layers}};
        manifest["config"] = layer("config", config);
        write(models() / "manifests" / path_in_manifests, manifest.dump());
    }

    fs::path path;
};

Status status_of(const std::function<void()>& function) {
    try {
        function();
    } catch (const Failure& failure) {
        CHECK(failure.message().size() > 20);
        return failure.status();
    }
    return Status::ok;
}

}  // namespace

TEST_CASE("SHA-256 gives the standard's examples") {
    CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    const std::string million(1000000, 'a');
    CHECK(sha256_hex(million) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    Sha256 pieces;
    for (size_t at = 0, n = 1; at < million.size(); at += n, n = n % 130 + 1)
        pieces.add(std::as_bytes(std::span(million).subspan(at, std::min(n, million.size() - at))));
    CHECK(pieces.hex() == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("Names have defaults and a shortest form") {
    CHECK(ModelName::parse("llama3.2")->shortest() == "llama3.2:latest");
    CHECK(ModelName::parse("llama3.2:1b")->shortest() == "llama3.2:1b");
    CHECK(ModelName::parse("me/mine")->shortest() == "me/mine:latest");
    CHECK(ModelName::parse("hf.co/a/b:Q4_K_M")->shortest() == "hf.co/a/b:Q4_K_M");
    CHECK(ModelName::parse("localhost:5000/library/x:1")->shortest() == "localhost:5000/library/x:1");
    CHECK(ModelName::parse("registry.ollama.ai/library/x:1")->shortest() == "x:1");
    for (const char* bad : {"", ":", "a:", ":b", "a//b", "../x", "a/../b", "a b", "x:y/z:..", "-a"})
        CHECK_FALSE(ModelName::parse(bad));
}

TEST_CASE("An Ollama store is listed, found by any spelling, and opened") {
    const Home home;
    const std::string weights = read(TEST_DATA "/golden/qwen3.gguf");
    home.manifest("registry.ollama.ai/library/tiny/latest",
                  {home.layer("model", weights), home.layer("template", "{{ .Prompt }}"),
                   home.layer("system", "Be brief."), home.layer("params", R"({"stop":["<end>"],"top_k":7})"),
                   home.layer("license", "one"), home.layer("license", "two"), home.layer("novel", "?")});
    write(home.models() / "manifests/registry.ollama.ai/library/tiny/.hidden", "not a manifest");
    const auto models = Store().list();
    REQUIRE(models.size() == 1);
    CHECK(models[0].name == "tiny:latest");
    CHECK(models[0].digest ==
          sha256_hex(read(home.models() / "manifests/registry.ollama.ai/library/tiny/latest")));
    CHECK(models[0].problem.empty());
    CHECK(models[0].quantization == "F32");
    for (const std::string name :
         {"tiny", "tiny:latest", "TINY", "library/tiny", "registry.ollama.ai/library/tiny:latest"})
        CHECK(resolve(name).path == home.blob(weights));
    CHECK(resolve("sha256:" + sha256_hex(weights)).path == home.blob(weights));
    const StoredTexts texts = read_texts(models[0]);
    CHECK(texts.chat_template == "{{ .Prompt }}");
    CHECK(texts.system == "Be brief.");
    CHECK(texts.licenses == std::vector<std::string>{"one", "two"});
    const auto shown = nlohmann::json::parse(show_json(models[0]));
    CHECK(shown["parameters"]["top_k"] == 7);
    CHECK(verify_hashes(models[0]).empty());
    CHECK(status_of([] { resolve("tiny:7b"); }) == Status::not_found);
    CHECK(status_of([] { resolve("../tiny"); }) == Status::ok);  // a path: its reader says that it is missing
}

TEST_CASE("What is missing, cut short, unfinished or altered is named") {
    const Home home;
    const std::string weights =
        "GGUF and so on, sixty-four bytes or more of weights that nobody will ever read";
    home.manifest("registry.ollama.ai/library/a/b", nlohmann::json::array({home.layer("model", weights)}));
    const fs::path blob = home.blob(weights);
    SECTION("missing") {
        fs::remove(blob);
        CHECK(status_of([] { resolve("a:b"); }) == Status::bad_model);
        CHECK(Store().find("a:b").problem.find("lacks its model") != std::string::npos);
        CHECK(verify_hashes(Store().find("a:b")).size() == 1);
    }
    SECTION("unfinished") {
        fs::rename(blob, blob.string() + "-partial");
        write(blob.string() + "-partial-0", R"({"N":0,"Offset":0,"Size":40,"Completed":30})");
        write(blob.string() + "-partial-1", R"({"N":1,"Offset":40,"Size":38,"Completed":5})");
        CHECK(Store().find("a:b").problem.find("35 of " + std::to_string(weights.size()) + " bytes") !=
              std::string::npos);
    }
    SECTION("cut short") {
        fs::resize_file(blob, 10);
        const StoredModel model = Store().find("a:b");
        CHECK(model.problem.find("has 10 bytes, expected " + std::to_string(weights.size())) !=
              std::string::npos);
        CHECK(status_of([] { resolve("a:b"); }) == Status::bad_model);
    }
    SECTION("altered") {
        std::string other = weights;
        other[20] = char(other[20] ^ 1);
        write(blob, other);
        const StoredModel model = Store().find("a:b");
        CHECK(model.problem.empty());  // the size is right: only a hash shows it
        const auto broken = verify_hashes(model);
        REQUIRE(broken.size() == 1);
        CHECK(broken[0].part.path == blob);
        CHECK(broken[0].actual == sha256_hex(other));
    }
    SECTION("a damaged manifest") {
        for (const char* text : {"", "{", "[]", "{\"layers\":7}", "{\"layers\":[7]}"}) {
            write(home.models() / "manifests/registry.ollama.ai/library/a/b", text);
            CHECK_FALSE(Store().find("a:b").problem.empty());
        }
    }
    SECTION("digests that would leave the store") {
        write(
            home.models() / "manifests/registry.ollama.ai/library/a/b",
            R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../../../etc/passwd","size":1}]})");
        CHECK_FALSE(Store().find("a:b").problem.empty());
    }
    SECTION("progress counts bytes and cancels") {
        const StoredModel model = Store().find("a:b");
        uint64_t last = 0, all = 0;
        verify_hashes(model, [&](const char*, uint64_t done, uint64_t total) {
            last = done;
            all = total;
            return true;
        });
        CHECK(last == all);
        CHECK(status_of([&] {
                  verify_hashes(model, [](const char*, uint64_t, uint64_t) { return false; });
              }) == Status::cancelled);
    }
}

TEST_CASE("The server's own store comes before Ollama's") {
    const Home home;
    home.manifest("registry.ollama.ai/library/both/latest",
                  nlohmann::json::array({home.layer("model", "theirs")}));
    home.manifest("registry.ollama.ai/library/theirs/latest",
                  nlohmann::json::array({home.layer("model", "theirs")}));
    const fs::path own = home.path / ".local/share/coterie";
    fs::create_directories(own);
    fs::copy(home.models(), own / "models", fs::copy_options::recursive);
    fs::remove_all(own / "models/manifests/registry.ollama.ai/library/theirs");
    CHECK(Store().list().size() == 2);
    CHECK(Store().find("both").path.find(own.string()) == 0);
    CHECK(Store().find("theirs").path.find(home.models().string()) == 0);
    setenv("COTERIE_MODELS", "/nowhere", 1);
    CHECK(Store().find("both").path.find(home.models().string()) == 0);
    fs::rename(own / "models", home.path / "moved");
    setenv("COTERIE_MODELS", (home.path / "moved").c_str(), 1);
    CHECK(Store().find("both").path.find((home.path / "moved").string()) == 0);
}

TEST_CASE("The hub's cache and folders are searched by name and tag") {
    const Home home;
    const fs::path repository = home.path / ".cache/huggingface/hub/models--someone--Model-GGUF";
    const std::string digest = sha256_hex("weights");
    write(repository / "refs/main", "abc123");
    write(repository / "blobs" / digest, "weights");
    fs::create_directories(repository / "snapshots/abc123/Q8_0");
    fs::create_symlink("../../blobs/" + digest, repository / "snapshots/abc123/Model-Q4_K_M.gguf");
    write(repository / "snapshots/abc123/Q8_0/Model-Q8_0-00001-of-00002.gguf", "one");
    write(repository / "snapshots/abc123/Q8_0/Model-Q8_0-00002-of-00002.gguf", "two!");
    write(repository / "snapshots/old/Model-Q2_K.gguf", "old");
    write(repository / "snapshots/abc123/mmproj-Model.gguf", "vision");
    CHECK(Store().list().size() == 2);
    CHECK(fs::path(resolve("someone/Model-GGUF:Q4_K_M").path).filename() == "Model-Q4_K_M.gguf");
    CHECK(resolve("hf.co/someone/model-gguf:q8_0").size == 7);
    CHECK(fs::path(resolve("someone/Model-GGUF").path).filename() == "Model-Q4_K_M.gguf");
    CHECK(status_of([] { resolve("someone/Model-GGUF:Q2_K"); }) == Status::not_found);
    CHECK(verify_hashes(Store().find("someone/Model-GGUF:Q4_K_M")).empty());
    write(repository / "blobs" / digest, "weighty");
    CHECK(verify_hashes(Store().find("someone/Model-GGUF:Q4_K_M")).size() == 1);

    const fs::path folder = home.path / "mine";
    write(folder / "small.gguf", "x");
    CHECK(resolve("small", folder).path == folder / "small.gguf");
    CHECK(Store(folder).list().front().name == "small:latest");
    CHECK(status_of([&] { Store((home.path / "nowhere").string()); }) == Status::not_found);
    fs::remove(repository / "snapshots/abc123/Q8_0/Model-Q8_0-00002-of-00002.gguf");
    CHECK(status_of([] { resolve("someone/Model-GGUF:Q8_0"); }) == Status::bad_model);
}
