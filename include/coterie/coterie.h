/* Coterie: an embeddable library that runs large mixture-of-experts language models from GGUF files.
 *
 * This header is the manual. It reads top to bottom: rules for every function, the simple path in five calls, then the rest.
 *
 * Rules that hold everywhere
 *   Handles     are opaque. A model describes a file's weights: immutable, for any thread. An engine is a model placed on
 *               devices: for any thread, serialised inside. A generation is one answer: one thread at a time, but
 *               coterie_generation_cancel from any. A create or open gives one reference, destroy takes it and accepts NULL.
 *               An engine keeps its model alive, a generation its engine.
 *   Errors      Every function that can fail returns a coterie_status and fills a coterie_error of the caller's (may be
 *               NULL) with one English sentence a user can act on. Nothing is thread-local.
 *   Never       aborts, exits, prints, raises signals, throws across this border, calls back while holding a lock.
 *   Options     are structs that begin with struct_size. Zero everything (or use the INIT macro) and set what you need: zero
 *               means default. They only ever grow at the end; an unknown tail that isn't all zero is refused.
 *   Strings     in: UTF-8, copied. Out: into (buffer, capacity), always ended by a zero byte if capacity > 0; *needed gets
 *               the length without it, and the status is COTERIE_INVALID_ARGUMENT only if the arguments are wrong: a text
 *               that did not fit is cut, so compare *needed with capacity, and call again with NULL, 0 to ask for the size.
 *   Callbacks   get `user` first and return 0 to go on, anything else to stop. The comment says which thread calls.
 *   Stability   0.x may break at a minor version. What is unstable lives in coterie_experimental.h.
 *
 * The simple path
 *   coterie_model_open -> coterie_engine_create -> coterie_chat -> coterie_generation_next until FINISHED -> destroy all.
 */
#ifndef COTERIE_H
#define COTERIE_H

#include <stddef.h>
#include <stdint.h>

#if defined(COTERIE_BUILD)
#define COTERIE_API __attribute__((visibility("default")))
#else
#define COTERIE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define COTERIE_VERSION_MAJOR 0
#define COTERIE_VERSION_MINOR 1
#define COTERIE_VERSION_PATCH 0

/* ---- status and errors ---------------------------------------------------------------------------------------- */

typedef int32_t coterie_status;
#define COTERIE_OK 0
#define COTERIE_INVALID_ARGUMENT 1 /* the caller's mistake: correct the call */
#define COTERIE_NOT_FOUND 2        /* no such file, model or name */
#define COTERIE_BAD_MODEL 3        /* the file is damaged or contradicts itself: fetch it again */
#define COTERIE_UNSUPPORTED 4      /* valid, but this build or device can't do it */
#define COTERIE_OUT_OF_MEMORY 5    /* ask for less, or free something */
#define COTERIE_CANCELLED 6        /* a callback or a caller asked to stop */
#define COTERIE_DEVICE_LOST 7      /* a device failed: create a new engine without it */
#define COTERIE_BUSY 8             /* the queue is full: try later */
#define COTERIE_INTERNAL 9         /* a contradiction inside Coterie: please report it */
#define COTERIE_TOO_LONG 10        /* more tokens than the context holds: shorten it, or make an engine with a larger context */

typedef struct coterie_error {
    uint32_t struct_size;
    coterie_status status;
    char message[1024]; /* one sentence, ended by a zero byte, cut if longer */
} coterie_error;
#define COTERIE_ERROR_INIT {sizeof(coterie_error), 0, {0}}

COTERIE_API const char* coterie_version(void);                         /* "0.1.0" */
COTERIE_API const char* coterie_status_name(coterie_status status);    /* "out of memory"; never NULL */

typedef struct coterie_model coterie_model;
typedef struct coterie_engine coterie_engine;
typedef struct coterie_generation coterie_generation;

/* What is being done ("reading", "loading", "verifying", ...), units done and in all. Called on the thread that called the
 * function, or on one of the library's while that thread waits. Non-zero cancels. */
typedef int (*coterie_progress_fn)(void* user, const char* what, uint64_t done, uint64_t total);
/* level: 0 debug, 1 info, 2 warning, 3 error. Any thread of the engine. The result is ignored. */
typedef int (*coterie_log_fn)(void* user, int32_t level, const char* line);

/* ---- devices -------------------------------------------------------------------------------------------------- */

/* The devices of this machine, as text for people or as JSON. Needs nothing. Any thread. */
#define COTERIE_TEXT 0
#define COTERIE_JSON 1
COTERIE_API coterie_status coterie_devices(int32_t format, char* buffer, size_t capacity, size_t* needed,
                                           coterie_error* error);

/* ---- models --------------------------------------------------------------------------------------------------- */

typedef struct coterie_model_options {
    uint32_t struct_size;
    uint32_t reserved;
    coterie_progress_fn progress; /* while reading */
    void* progress_user;
} coterie_model_options;
#define COTERIE_MODEL_OPTIONS_INIT {sizeof(coterie_model_options), 0, NULL, NULL}

/* Opens a GGUF file, or the whole set when given one file of a split set. `path` may also be the name of a model that
 * Ollama or Hugging Face's hub stored on this machine ("llama3.2:1b", "owner/name:Q4_K_M"). Reads headers only: milliseconds, whatever the
 * size. Everything is checked; a file that is cut short or contradicts itself is refused with what is wrong. options may be
 * NULL. */
COTERIE_API coterie_status coterie_model_open(const char* path, const coterie_model_options* options,
                                              coterie_model** model, coterie_error* error);
COTERIE_API void coterie_model_destroy(coterie_model* model);

typedef struct coterie_model_info {
    uint32_t struct_size;
    int32_t layers, embedding, vocabulary;
    int32_t experts, experts_used; /* 0, 0 for a dense model */
    int64_t context_tokens;        /* that the model was made for */
    uint64_t file_bytes, weight_bytes;
    int32_t recurrent; /* 1: some layers keep a recurrent state */
    int32_t has_chat_template;
} coterie_model_info;
#define COTERIE_MODEL_INFO_INIT {sizeof(coterie_model_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

COTERIE_API coterie_status coterie_model_get_info(const coterie_model* model, coterie_model_info* info,
                                                  coterie_error* error);
/* One metadata value as text (strings as they are, numbers in decimal); COTERIE_NOT_FOUND without the key. */
COTERIE_API coterie_status coterie_model_metadata(const coterie_model* model, const char* key, char* buffer,
                                                  size_t capacity, size_t* needed, coterie_error* error);
/* What a zero in coterie_generation_options stands for with this model, as a JSON object: temperature, top_k, top_p, min_p,
 * typical_p, repeat_penalty, penalty_tokens, and "source": "file" (its general.sampling.* keys), "family" (what the makers of
 * such models recommend) or "library". */
COTERIE_API coterie_status coterie_model_sampling_defaults(const coterie_model* model, char* buffer, size_t capacity,
                                                           size_t* needed, coterie_error* error);

/* ---- tokens and text ------------------------------------------------------------------------------------------ */

#define COTERIE_ADD_SPECIAL 1u   /* the model's own tokens at the beginning and end, where it wants them */
#define COTERIE_PARSE_SPECIAL 2u /* texts such as <|im_start|> become the tokens they name: not for what users type */
#define COTERIE_WITH_SPECIAL 1u  /* coterie_detokenize: control tokens give their text */

/* Text of `length` bytes -> token ids. Writes at most capacity, *needed gets their number. */
COTERIE_API coterie_status coterie_tokenize(const coterie_model* model, const char* text, size_t length, uint32_t flags,
                                            int32_t* tokens, size_t capacity, size_t* needed, coterie_error* error);
/* Token ids -> text. Bytes that form no character become U+FFFD. */
COTERIE_API coterie_status coterie_detokenize(const coterie_model* model, const int32_t* tokens, size_t count,
                                              uint32_t flags, char* buffer, size_t capacity, size_t* needed,
                                              coterie_error* error);
/* 1 if the token ends an answer, 0 if not or if the id is not in the vocabulary. */
COTERIE_API int32_t coterie_token_is_end(const coterie_model* model, int32_t token);

typedef struct coterie_chat_options {
    uint32_t struct_size;
    int32_t thinking;              /* 0: the template's default, 1: on, -1: off */
    const char* reasoning_effort;  /* "low", "medium", "high", ...; NULL: the template's default */
    const char* chat_template;     /* Jinja, or Ollama's Go form; NULL: the model's, or a built-in one */
    const char* variables_json;    /* an object: further variables of the template */
    int32_t no_generation_prompt;  /* 1: end after the last message */
    int32_t continue_last_message; /* 1: the last message is the start of the answer */
} coterie_chat_options;
#define COTERIE_CHAT_OPTIONS_INIT {sizeof(coterie_chat_options), 0, NULL, NULL, NULL, 0, 0}

/* The exact prompt for a conversation: messages (and tools, or NULL) as JSON in the form of OpenAI's chat completions. */
COTERIE_API coterie_status coterie_chat_render(const coterie_model* model, const char* messages_json,
                                               const char* tools_json, const coterie_chat_options* options, char* buffer,
                                               size_t capacity, size_t* needed, coterie_error* error);

/* ---- plans ---------------------------------------------------------------------------------------------------- */

typedef struct coterie_plan_request {
    uint32_t struct_size;
    int32_t parallel;        /* sequences that run at once; 0: 1 */
    int64_t context_tokens;  /* of one sequence; 0: what fits, at most 8192 */
    const char* machine;     /* a built-in name ("4x3090") or a JSON file (docs/placement.md); NULL: this one */
    const char* devices;     /* of this machine, as in coterie_engine_options */
    const char* mode;        /* "auto", "tensor", "expert", "layer"; NULL: auto */
    const char* key_type;    /* of the cache: "f16", "q8_0", "f32"; NULL: f16 */
    const char* value_type;
    int32_t step_rows;       /* 0: 512 */
    int32_t host_experts;    /* 1: experts that don't fit may stay on the host */
    uint64_t device_memory_bytes; /* most to use of each device; 0: all that is free */
} coterie_plan_request;
#define COTERIE_PLAN_REQUEST_INIT {sizeof(coterie_plan_request), 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0}

/* Where a model would lie on a machine, which need not be this one: bytes per rank, predicted speed, or why it does not
 * fit and what would. As text or JSON; loads nothing. *fits (may be NULL) gets 1 or 0; a plan that does not fit is a plan.
 * request may be NULL. */
COTERIE_API coterie_status coterie_plan(const coterie_model* model, const coterie_plan_request* request, int32_t format,
                                        int32_t* fits, char* buffer, size_t capacity, size_t* needed,
                                        coterie_error* error);

/* ---- engines -------------------------------------------------------------------------------------------------- */

#define COTERIE_READY 0
#define COTERIE_DEGRADED 1 /* it works, but slower: the CPU has fewer cores than before, or a GPU is unwell; may end */
#define COTERIE_LOST 2     /* a device failed: everything that ran has ended, nothing new is taken */

/* What an engine tells of itself while it lives. */
#define COTERIE_ENGINE_PROGRESS 1 /* of coterie_engine_create: message is what is done, done, total */
#define COTERIE_ENGINE_STATE 2    /* the state changed: state, message says why */
#define COTERIE_ENGINE_WARNING 3  /* of the plan or a device: message */
typedef struct coterie_engine_event {
    uint32_t struct_size;
    int32_t kind;
    int32_t state;       /* one of COTERIE_READY, COTERIE_DEGRADED, COTERIE_LOST */
    int32_t reserved;
    const char* message; /* a sentence; valid during the call */
    uint64_t done, total;
} coterie_engine_event;
/* Any thread of the engine, or the one that creates it; never under a lock, and never after coterie_engine_destroy and the
 * destruction of all its generations. It holds the engine up: take a note and return. Of PROGRESS non-zero cancels the
 * loading, of others the result is ignored. */
typedef int (*coterie_engine_event_fn)(void* user, const coterie_engine_event* event);

typedef struct coterie_engine_options {
    uint32_t struct_size;
    int32_t threads;         /* of the CPU device; 0: all usable cores */
    const char* devices;     /* NULL or "cpu"; "cpu:4": four CPU ranks; "cuda": every GPU, "cuda:0,1":
                                these (not verified on hardware yet); "reference": float64, for checking */
    const char* isa;         /* of the CPU device: "avx512", "avx2", "portable"; NULL: the best there is */
    int64_t context_tokens;  /* of one sequence; 0: what fits, at most 8192 */
    int32_t parallel;        /* sequences that run at once; 0: 1 */
    int32_t step_rows;       /* rows of a step, which bounds a prefill chunk; 0: 512 */
    const char* key_type;    /* of the cache: "f16", "q8_0", "f32"; NULL: f16 */
    const char* value_type;
    int32_t queue;           /* generations that may wait before COTERIE_BUSY; 0: 64 */
    int32_t no_prefix_reuse; /* 1: every prompt is computed from its first token */
    coterie_progress_fn progress; /* while loading */
    void* progress_user;
    coterie_log_fn log;
    void* log_user;
    const char* mode; /* how several ranks share the model: "auto", "tensor", "expert", "layer"; NULL: auto */
    coterie_engine_event_fn events;
    void* events_user;
    int32_t draft_tokens; /* most guessed tokens of a sequence that a step checks at once (docs/engine.md); 0: none */
    int32_t host_experts; /* 1: experts that don't fit on the devices may stay on the host and be computed there */
    uint64_t device_memory_bytes; /* most to use of each device; 0: all that is free */
} coterie_engine_options;
#define COTERIE_ENGINE_OPTIONS_INIT \
    {sizeof(coterie_engine_options), 0, NULL, NULL, 0, 0, 0, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0}

/* Places a model on devices and loads it. Never on other devices than asked for. options may be NULL. */
COTERIE_API coterie_status coterie_engine_create(coterie_model* model, const coterie_engine_options* options,
                                                 coterie_engine** engine, coterie_error* error);
/* Ends what is running (with COTERIE_CANCELLED) once its generations are destroyed too. */
COTERIE_API void coterie_engine_destroy(coterie_engine* engine);

/* COTERIE_READY, COTERIE_DEGRADED or COTERIE_LOST; coterie_engine_describe says why. Any thread. */
COTERIE_API int32_t coterie_engine_state(const coterie_engine* engine);

typedef struct coterie_engine_statistics {
    uint32_t struct_size;
    int32_t running, waiting;              /* generations */
    int32_t parallel;                      /* sequences that can run at once */
    int64_t context_tokens;                /* of one sequence */
    int64_t pages, pages_held, pages_cached; /* of the KV cache */
    int64_t prompt_tokens, cached_tokens, generated_tokens; /* since the engine was made */
    int64_t steps, step_us, preemptions;
    int32_t queue;                         /* generations that may wait */
    int32_t state_slots, state_slots_used; /* of recurrent states: of running sequences, and checkpoints; 0: none needed */
    int32_t checkpoints;                   /* states kept to resume from */
    int64_t checkpoint_hits;
    double prefix_hit_rate;                /* cached_tokens / prompt_tokens */
    int64_t step_us_p50, step_us_p99;      /* of the last 256 steps */
    double tokens_per_second;              /* generated, in the time of these steps */
    int64_t drafted_tokens, accepted_tokens; /* guessed; of these, found right */
    int64_t pending_bytes;                 /* of experts that are packed for the CPU on first use, or while it is idle */
} coterie_engine_statistics;
#define COTERIE_ENGINE_STATISTICS_INIT \
    {sizeof(coterie_engine_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

COTERIE_API coterie_status coterie_engine_get_statistics(const coterie_engine* engine,
                                                         coterie_engine_statistics* statistics, coterie_error* error);
/* Where the model lies: ranks, devices and bytes of weights, cache, states and scratch; and the state with its reason; as
 * text or JSON. */
COTERIE_API coterie_status coterie_engine_describe(const coterie_engine* engine, int32_t format, char* buffer,
                                                   size_t capacity, size_t* needed, coterie_error* error);

/* ---- generations ---------------------------------------------------------------------------------------------- */

#define COTERIE_GREEDY 1u       /* take the most likely token; other sampling options but penalties and bias are ignored */
#define COTERIE_IGNORE_END 2u   /* go on after end tokens */
#define COTERIE_SPECIAL_TEXT 4u /* control tokens give their text */
#define COTERIE_LOGPROBS 8u     /* report the log-probability of each token, and of top_logprobs alternatives */
#define COTERIE_SHIFT_CONTEXT 16u /* when the context is full forget the older half and go on, instead of ending */
#define COTERIE_RAW 32u         /* coterie_chat: give the text as it comes, without sorting it into fields */
#define COTERIE_PREFILL 64u     /* tell with COTERIE_EVENT_PREFILL how much of the prompt is computed */

typedef struct coterie_bias {
    int32_t token;
    float value; /* added to the logit; -INFINITY forbids the token */
} coterie_bias;

typedef struct coterie_generation_options {
    uint32_t struct_size;
    uint32_t flags;
    int64_t max_tokens; /* 0: until the model ends or the context is full */
    /* 0 stands for the model's own, see coterie_model_sampling_defaults. */
    float temperature;
    float top_p;     /* 1: off */
    float min_p;     /* a tiny value: off */
    float typical_p; /* 1: off */
    int32_t top_k;   /* -1: off */
    float repeat_penalty; /* 1: off */
    float presence_penalty, frequency_penalty; /* 0: off */
    int32_t penalty_tokens; /* how far back penalties look; 0: 64; -1: everything */
    int32_t top_logprobs;   /* with COTERIE_LOGPROBS */
    uint64_t seed;          /* 0: chosen anew */
    const char* const* stop; /* stop_count strings that end the answer and are left out of it */
    size_t stop_count;
    const coterie_bias* bias;
    size_t bias_count;
    const char* json_schema; /* the answer is JSON that fits this schema; "{}": any JSON object */
    const char* grammar;     /* GBNF; not with json_schema */
    int32_t priority;        /* higher goes first */
    int32_t time_limit_ms;   /* 0: none */
    /* coterie_chat with tools: NULL or "auto": the model decides; "none": no calls; "required": at least one call; else the
     * name of the function to call. Enforced by a grammar. */
    const char* tool_choice;
    int32_t draft_tokens; /* as in coterie_engine_options, which is the most; 0: as the engine's; -1: none */
} coterie_generation_options;
#define COTERIE_GENERATION_OPTIONS_INIT \
    {sizeof(coterie_generation_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL, 0, NULL, NULL, 0, 0, NULL, 0}

/* Continues token ids. Returns at once; the answer is taken with coterie_generation_next. options may be NULL. */
COTERIE_API coterie_status coterie_generate(coterie_engine* engine, const int32_t* tokens, size_t count,
                                            const coterie_generation_options* options, coterie_generation** generation,
                                            coterie_error* error);
/* Continues a text, tokenised with COTERIE_ADD_SPECIAL | COTERIE_PARSE_SPECIAL. */
COTERIE_API coterie_status coterie_complete(coterie_engine* engine, const char* prompt,
                                            const coterie_generation_options* options, coterie_generation** generation,
                                            coterie_error* error);
/* Answers a conversation (see coterie_chat_render). The answer's events say what is reasoning, content and tool calls. */
COTERIE_API coterie_status coterie_chat(coterie_engine* engine, const char* messages_json, const char* tools_json,
                                        const coterie_chat_options* chat, const coterie_generation_options* options,
                                        coterie_generation** generation, coterie_error* error);

#define COTERIE_EVENT_NONE 0        /* nothing came within timeout_ms */
#define COTERIE_EVENT_TOKEN 1       /* coterie_generate, coterie_complete, COTERIE_RAW: a token, and the text it completes;
                                       of a sorted chat only with COTERIE_LOGPROBS, before the events of its text */
#define COTERIE_EVENT_CONTENT 2     /* coterie_chat: text of the answer */
#define COTERIE_EVENT_REASONING 3   /* coterie_chat: text of the thinking before it */
#define COTERIE_EVENT_TOOL_CALL 4   /* coterie_chat: a call begins: call, id, name */
#define COTERIE_EVENT_ARGUMENTS 5   /* coterie_chat: a piece of the call's arguments, which together are one JSON object */
#define COTERIE_EVENT_TOOL_CALL_END 6
#define COTERIE_EVENT_FINISHED 7    /* the last one: finish_reason says why */
#define COTERIE_EVENT_PREFILL 8     /* with COTERIE_PREFILL: done of total tokens of the prompt are computed */

#define COTERIE_FINISH_END 1        /* the model ended its answer */
#define COTERIE_FINISH_STOP 2       /* a stop string came */
#define COTERIE_FINISH_LENGTH 3     /* max_tokens */
#define COTERIE_FINISH_CONTEXT 4    /* the context is full */
#define COTERIE_FINISH_CANCELLED 5
#define COTERIE_FINISH_TIME 6       /* time_limit_ms */
#define COTERIE_FINISH_FAILED 7     /* coterie_generation_next returns the status and the sentence */

typedef struct coterie_token_logprob {
    int32_t token;
    float logprob;
} coterie_token_logprob;

typedef struct coterie_event {
    uint32_t struct_size;
    int32_t kind;
    int32_t token;       /* TOKEN: its id */
    int32_t call;        /* tool calls: 0, 1, ... */
    const char* text;    /* UTF-8, ended by a zero byte; whole characters; valid until the next call for this generation */
    size_t length;
    const char* id;      /* TOOL_CALL */
    const char* name;    /* TOOL_CALL */
    float logprob;       /* TOKEN with COTERIE_LOGPROBS */
    int32_t finish_reason;
    const coterie_token_logprob* top; /* TOKEN with COTERIE_LOGPROBS: the likeliest tokens, best first; valid as text is */
    size_t top_count;
    int64_t done, total; /* PREFILL */
} coterie_event;
#define COTERIE_EVENT_INIT {sizeof(coterie_event), 0, 0, 0, NULL, 0, NULL, NULL, 0, 0, NULL, 0, 0, 0}

/* Waits for the next event, timeout_ms at most (0: looks only; negative: for ever). After FINISHED it gives FINISHED again.
 * A generation that failed returns its status, after the events that came before. */
COTERIE_API coterie_status coterie_generation_next(coterie_generation* generation, coterie_event* event,
                                                   int64_t timeout_ms, coterie_error* error);
/* Asks the generation to end; seen within one step. Any thread, as often as you like. */
COTERIE_API void coterie_generation_cancel(coterie_generation* generation);
/* Cancels it if it is still running. */
COTERIE_API void coterie_generation_destroy(coterie_generation* generation);

typedef struct coterie_generation_statistics {
    uint32_t struct_size;
    int32_t finish_reason; /* 0 while it runs */
    int64_t prompt_tokens, cached_tokens, generated_tokens;
    int64_t queue_us, prefill_us, decode_us; /* waiting; until the first token; after it */
    int64_t preemptions;
    uint64_t seed; /* that was used */
    int64_t computed_tokens; /* of the prompt, the cached ones among them: grows while it is computed */
    int64_t drafted_tokens, accepted_tokens; /* guessed; of these, found right */
} coterie_generation_statistics;
#define COTERIE_GENERATION_STATISTICS_INIT {sizeof(coterie_generation_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

COTERIE_API coterie_status coterie_generation_get_statistics(const coterie_generation* generation,
                                                             coterie_generation_statistics* statistics,
                                                             coterie_error* error);

/* The tokens of a generation: its prompt, and what it has answered so far (which may be more than was taken with next).
 * Writes at most capacity, *needed gets their number. */
COTERIE_API coterie_status coterie_generation_tokens(const coterie_generation* generation, int32_t* tokens, size_t capacity,
                                                     size_t* needed, coterie_error* error);
/* A second generation that continues from those tokens with options of its own (max_tokens counts its own tokens), sharing
 * what is computed of them: best-of-n by forking before the first token, branches by forking later. Also of one that has
 * ended. Its events are what it adds; of a chat, in the same form. A grammar must fit the answer so far. */
COTERIE_API coterie_status coterie_generation_fork(coterie_generation* generation, const coterie_generation_options* options,
                                                   coterie_generation** fork, coterie_error* error);
/* Writes the tokens of a generation to a file, with those keys, values and states that are at hand: while it runs or was the
 * last to run, all but those of the last few tokens. Waits for the step that runs. */
COTERIE_API coterie_status coterie_generation_save(coterie_generation* generation, const char* path, coterie_error* error);
/* Reads what coterie_generation_save wrote, on an engine of the same model, kind of devices and cache types, and continues
 * from it as coterie_generate does. generation may be NULL: then nothing is started, but a prompt that begins with the saved
 * tokens, such as the next turn of a chat, starts from what was saved. */
COTERIE_API coterie_status coterie_engine_restore(coterie_engine* engine, const char* path,
                                                  const coterie_generation_options* options,
                                                  coterie_generation** generation, coterie_error* error);

/* ---- embeddings, logits, likelihoods -------------------------------------------------------------------------- */

/* What a model makes of texts that are given, without answering. These calls wait until everything is computed; they run
 * beside generations, taking turns, as many inputs at once as the engine's `parallel`. Any thread; several may wait at once.
 * `progress` is called on the waiting thread at least every 50 ms with the tokens done, and cancels: the call then returns
 * COTERIE_CANCELLED within one step. Whatever the status, nothing is written once the call has returned. */

typedef struct coterie_input {
    const char* text; /* `length` bytes of UTF-8, tokenised with COTERIE_ADD_SPECIAL; or NULL: */
    size_t length;
    const int32_t* tokens; /* `count` token ids, taken as they are */
    size_t count;
} coterie_input;

#define COTERIE_POOL_MEAN 1 /* of all tokens */
#define COTERIE_POOL_CLS 2  /* the first token's */
#define COTERIE_POOL_LAST 3 /* the last token's */

typedef struct coterie_reading_options {
    uint32_t struct_size;
    int32_t pooling;       /* of embeddings; 0: what the file asks for (<architecture>.pooling_type), else the mean */
    int32_t raw;           /* of embeddings: 1: as they are; 0: scaled to length 1 */
    int32_t dimensions;    /* of embeddings: so many of the first, before scaling; 0: all */
    int32_t truncate;      /* 1: what exceeds the context is left out; 0: refused */
    int32_t priority;      /* higher goes first */
    int32_t time_limit_ms; /* for each input; 0: none */
    int32_t reserved;
    coterie_progress_fn progress;
    void* progress_user;
} coterie_reading_options;
#define COTERIE_READING_OPTIONS_INIT {sizeof(coterie_reading_options), 0, 0, 0, 0, 0, 0, 0, NULL, NULL}

/* One embedding for each input, [count, coterie_model_info.embedding] or [count, dimensions]: the hidden states that the
 * output head would be given, pooled. capacity is the room in floats. *tokens (may be NULL) gets the number of tokens of all
 * inputs. options may be NULL. */
COTERIE_API coterie_status coterie_embed(coterie_engine* engine, const coterie_input* inputs, size_t count,
                                         const coterie_reading_options* options, float* embeddings, size_t capacity,
                                         int64_t* tokens, coterie_error* error);
/* Logits after each of the given tokens from number `first` on (count - 1: after the last only; 0: every row):
 * [count - first, coterie_model_info.vocabulary]. capacity is the room in floats. options may be NULL. */
COTERIE_API coterie_status coterie_read_logits(coterie_engine* engine, const int32_t* tokens, size_t count, size_t first,
                                             const coterie_reading_options* options, float* logits, size_t capacity,
                                             coterie_error* error);
/* How likely given texts are: for each token of each input, one input after the other, the natural logarithm of its
 * probability after those before it (0 for the first, which has none). *needed (may be NULL) gets their number, ends[i] (may
 * be NULL) where input i ends among them. capacity is the room in floats; with 0 the tokens are counted and nothing is
 * computed. options may be NULL. */
COTERIE_API coterie_status coterie_score(coterie_engine* engine, const coterie_input* inputs, size_t count,
                                         const coterie_reading_options* options, float* logprobs, size_t capacity,
                                         size_t* ends, size_t* needed, coterie_error* error);

#ifdef __cplusplus
}
#endif
#endif
