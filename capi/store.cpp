// The models that lie on this machine.
#include "store/store.h"

#include "coterie/coterie_experimental.h"
#include "guard.h"

using namespace coterie;
using namespace coterie::capi;

namespace {

std::string folder_of(const char* models_dir) {
    return models_dir ? models_dir : "";
}

std::string report_of(const store::StoredModel& model, const std::vector<store::HashedPart>& broken) {
    std::string text;
    size_t hashed = 0;
    for (const store::Part& part : model.parts) hashed += !part.digest.empty();
    for (const store::HashedPart& b : broken) {
        text += fmt::format("damaged: {} ({})\n  expected {} bytes, SHA-256 {}\n", b.part.path, b.part.type,
                            b.part.size, b.part.digest);
        text += b.actual.empty() ? "  found    nothing\n"
                                 : fmt::format("  found    {} bytes, SHA-256 {}\n", b.part.found, b.actual);
    }
    if (!broken.empty()) {
        const std::string again =
            model.source == "ollama" ? "ollama pull " + model.name : "the program that fetched it";
        return text + fmt::format("delete the damaged files of '{}' and fetch them again with {}\n",
                                  model.name, again);
    }
    if (hashed == 0)
        return fmt::format("{}: nobody recorded a SHA-256 of it, so there is nothing to compare with\n",
                           model.name);
    return fmt::format("{}: {} of {} files have the SHA-256 recorded\n", model.name, hashed,
                       model.parts.size());
}

}  // namespace

coterie_status coterie_store_list(const char* models_dir, char* buffer, size_t capacity, size_t* needed,
                                  coterie_error* error) {
    return guard(error, [&] {
        write_text(store::list_json(store::Store(folder_of(models_dir)).list()), buffer, capacity, needed);
    });
}

coterie_status coterie_store_show(const char* name, const char* models_dir, char* buffer, size_t capacity,
                                  size_t* needed, coterie_error* error) {
    return guard(error, [&] {
        const std::string wanted(need_text(name, "name"));
        write_text(store::show_json(store::Store(folder_of(models_dir)).find(wanted)), buffer, capacity,
                   needed);
    });
}

coterie_status coterie_store_verify(const char* name, const char* models_dir, coterie_progress_fn progress,
                                    void* progress_user, int32_t* sound, char* buffer, size_t capacity,
                                    size_t* needed, coterie_error* error) {
    return guard(error, [&] {
        const std::string wanted(need_text(name, "name"));
        const store::StoredModel model = store::Store(folder_of(models_dir)).find(wanted);
        const auto broken = store::verify_hashes(model, progress_of(progress, progress_user));
        if (sound) *sound = broken.empty();
        write_text(report_of(model, broken), buffer, capacity, needed);
    });
}
