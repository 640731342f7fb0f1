// Ollama's REST API: what its clients may ask, and answers in its words.
#pragma once
#include "generation.h"

namespace server {

void add_ollama_answers(Http& http, ModelPool& pool, Metrics& metrics);  // chat, generate
void add_ollama_listings(Http& http, ModelPool& pool,
                         const Settings& settings);  // tags, show, ps, version, ...

void add_ollama_store(Http& http, ModelPool& pool,
                      const Settings& settings);  // pull, create, copy, delete, blobs

// That this server calls itself: clients compare it with versions of Ollama that have what they need.
inline constexpr const char* ollama_version = "0.33.0";

// A keep_alive value: a number of seconds or a duration; nothing when absent.
std::optional<double> keep_alive_of(const json& request);
// Refuses pictures, gives messages a form that templates know.
json checked_messages(const json& request);

}  // namespace server
