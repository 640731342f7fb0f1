/* What may still change: the functions behind the command-line tool. Rules as in coterie.h. */
#ifndef COTERIE_EXPERIMENTAL_H
#define COTERIE_EXPERIMENTAL_H

#include "coterie/coterie.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Metadata, tensor table, types and parameter counts of a file of any architecture; as text or JSON. Headers only. */
COTERIE_API coterie_status coterie_inspect(const char* path, int32_t format, char* buffer, size_t capacity, size_t* needed,
                                           coterie_error* error);
/* Scans every block of every tensor for scales that are not finite. *sound gets 1 or 0; the report is text or JSON. */
COTERIE_API coterie_status coterie_verify(const char* path, int32_t threads, int32_t format, coterie_progress_fn progress,
                                          void* progress_user, int32_t* sound, char* buffer, size_t capacity,
                                          size_t* needed, coterie_error* error);
/* A file in, the same model in another mixture of types out ("Q4_K_M", "Q8_0", "F16", ...). allow_requantise: also from types
 * below 8 bits. */
COTERIE_API coterie_status coterie_quantize(const char* in_path, const char* out_path, const char* recipe, int32_t threads,
                                            int32_t allow_requantise, coterie_progress_fn progress, void* progress_user,
                                            coterie_error* error);
/* A mixture of experts whose experts are copies of a dense model's FFN: the same answers, other machinery. */
COTERIE_API coterie_status coterie_upcycle(const char* dense_path, const char* out_path, int32_t experts, int32_t used,
                                           uint64_t seed, coterie_progress_fn progress, void* progress_user,
                                           coterie_error* error);
/* A model of random weights with a real one's dimensions ("qwen3-30b", ...). layers and recipe may be 0 and NULL for the
 * preset's own; header_only: a sparse file of the true size. */
COTERIE_API coterie_status coterie_synthesise(const char* preset, const char* out_path, int32_t layers, const char* recipe,
                                              uint64_t seed, int32_t header_only, coterie_progress_fn progress,
                                              void* progress_user, coterie_error* error);
/* Logits of every position [count, vocabulary], computed in chunks of at most `chunk` tokens (0: all at once) on devices as in
 * coterie_engine_options. exact: an F32 cache. */
COTERIE_API coterie_status coterie_logits(const coterie_model* model, const char* devices, const char* isa, int32_t threads,
                                          const int32_t* tokens, size_t count, int32_t chunk, int32_t exact, float* logits,
                                          coterie_error* error);
/* Ranks in several processes, started by mpirun or another launcher of MPI: every one calls this first. In the first process,
 * or a lone one, it returns at once with *served = 0; engines it creates then have a CPU rank in each process. In the others
 * it works for these engines until the first process ends, and returns with *served = 1: nothing is left to do.
 * COTERIE_UNSUPPORTED where several were started but this build has no MPI. */
COTERIE_API coterie_status coterie_serve(coterie_log_fn log, void* log_user, int32_t* served, coterie_error* error);

/* Sorts a finished answer's raw text into events, as coterie_chat would: a JSON array. */
COTERIE_API coterie_status coterie_parse_answer(const coterie_model* model, const char* text, const char* tools_json,
                                                int32_t thinking_open, char* buffer, size_t capacity, size_t* needed,
                                                coterie_error* error);
/* Renders a chat template without a model. bos and eos may be NULL. */
COTERIE_API coterie_status coterie_render_template(const char* chat_template, const char* messages_json,
                                                   const char* tools_json, const coterie_chat_options* options,
                                                   const char* bos, const char* eos, char* buffer, size_t capacity,
                                                   size_t* needed, coterie_error* error);

/* The models on this machine, in the stores of Ollama and Hugging Face and in models_dir (may be NULL), a folder of GGUF
 * files or a store's root: a JSON array of objects with name, source, path, digest, size, modified_ns, complete, problem. */
COTERIE_API coterie_status coterie_store_list(const char* models_dir, char* buffer, size_t capacity, size_t* needed,
                                              coterie_error* error);
/* One of them by name, digest or path: the same and its parts, template, system text, parameters, messages and licences. */
COTERIE_API coterie_status coterie_store_show(const char* name, const char* models_dir, char* buffer, size_t capacity,
                                              size_t* needed, coterie_error* error);
/* Compares every part's SHA-256 with the one recorded; the report for people names what differs. *sound gets 1 or 0. */
COTERIE_API coterie_status coterie_store_verify(const char* name, const char* models_dir, coterie_progress_fn progress,
                                                void* progress_user, int32_t* sound, char* buffer, size_t capacity,
                                                size_t* needed, coterie_error* error);

#ifdef __cplusplus
}
#endif
#endif
