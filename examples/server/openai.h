// OpenAI's API and the endpoints of llama.cpp's server that tools poll.
#pragma once
#include "generation.h"

namespace server {

void add_openai_answers(Http& http, ModelPool& pool, Metrics& metrics);  // chat, completions
void add_openai_listings(Http& http, ModelPool& pool, Metrics& metrics, const Settings& settings);

// A chat request as a question; n and stream are the caller's.
Question read_chat(const json& request);
Question read_completion(const json& request);

}  // namespace server
