// Embeddings of texts, as all three endpoints for them give them: always of length 1.
#pragma once
#include "http.h"
#include "models.h"

namespace server {

struct EmbeddingQuestion {
    std::string model;
    std::vector<std::string> texts;            // either these
    std::vector<std::vector<int32_t>> tokens;  // or these
    int64_t dimensions = 0;                    // 0: all
    int64_t context = 0;
    bool truncate = true;
    std::optional<double> keep_alive;
};

struct Embeddings {
    std::vector<std::vector<float>> vectors;
    int64_t tokens = 0, load_ns = 0, total_ns = 0;
};

// HttpError, coterie::Error; ClientGone as soon as nobody waits.
Embeddings embed(ModelPool& pool, Metrics& metrics, const EmbeddingQuestion& question,
                 const std::function<bool()>& gone);

void add_embeddings(Http& http, ModelPool& pool, Metrics& metrics);

}  // namespace server
