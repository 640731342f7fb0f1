/* The header as C99, and the layout of its structs on 64-bit machines: a field that moves is a broken binary
 * interface. */
#include "coterie/coterie.h"
#include "coterie/coterie_experimental.h"

#define AT(type, field, offset) typedef char at_##type##_##field[offsetof(type, field) == (offset) ? 1 : -1]

AT(coterie_error, struct_size, 0);
AT(coterie_error, status, 4);
AT(coterie_error, message, 8);

AT(coterie_model_options, progress, 8);
AT(coterie_model_options, progress_user, 16);

AT(coterie_model_info, layers, 4);
AT(coterie_model_info, embedding, 8);
AT(coterie_model_info, vocabulary, 12);
AT(coterie_model_info, experts, 16);
AT(coterie_model_info, experts_used, 20);
AT(coterie_model_info, context_tokens, 24);
AT(coterie_model_info, file_bytes, 32);
AT(coterie_model_info, weight_bytes, 40);
AT(coterie_model_info, recurrent, 48);
AT(coterie_model_info, has_chat_template, 52);

AT(coterie_chat_options, thinking, 4);
AT(coterie_chat_options, reasoning_effort, 8);
AT(coterie_chat_options, chat_template, 16);
AT(coterie_chat_options, variables_json, 24);
AT(coterie_chat_options, no_generation_prompt, 32);
AT(coterie_chat_options, continue_last_message, 36);

AT(coterie_engine_options, threads, 4);
AT(coterie_engine_options, devices, 8);
AT(coterie_engine_options, isa, 16);
AT(coterie_engine_options, context_tokens, 24);
AT(coterie_engine_options, parallel, 32);
AT(coterie_engine_options, step_rows, 36);
AT(coterie_engine_options, key_type, 40);
AT(coterie_engine_options, value_type, 48);
AT(coterie_engine_options, queue, 56);
AT(coterie_engine_options, no_prefix_reuse, 60);
AT(coterie_engine_options, progress, 64);
AT(coterie_engine_options, progress_user, 72);
AT(coterie_engine_options, log, 80);
AT(coterie_engine_options, log_user, 88);
AT(coterie_engine_options, mode, 96);
AT(coterie_engine_options, events, 104);
AT(coterie_engine_options, events_user, 112);
AT(coterie_engine_options, draft_tokens, 120);
AT(coterie_engine_options, host_experts, 124);
AT(coterie_engine_options, device_memory_bytes, 128);

AT(coterie_engine_event, struct_size, 0);
AT(coterie_engine_event, kind, 4);
AT(coterie_engine_event, state, 8);
AT(coterie_engine_event, message, 16);
AT(coterie_engine_event, done, 24);
AT(coterie_engine_event, total, 32);

AT(coterie_plan_request, parallel, 4);
AT(coterie_plan_request, context_tokens, 8);
AT(coterie_plan_request, machine, 16);
AT(coterie_plan_request, devices, 24);
AT(coterie_plan_request, mode, 32);
AT(coterie_plan_request, key_type, 40);
AT(coterie_plan_request, value_type, 48);
AT(coterie_plan_request, step_rows, 56);
AT(coterie_plan_request, host_experts, 60);
AT(coterie_plan_request, device_memory_bytes, 64);

AT(coterie_engine_statistics, running, 4);
AT(coterie_engine_statistics, waiting, 8);
AT(coterie_engine_statistics, parallel, 12);
AT(coterie_engine_statistics, context_tokens, 16);
AT(coterie_engine_statistics, pages, 24);
AT(coterie_engine_statistics, prompt_tokens, 48);
AT(coterie_engine_statistics, steps, 72);
AT(coterie_engine_statistics, preemptions, 88);
AT(coterie_engine_statistics, queue, 96);
AT(coterie_engine_statistics, state_slots, 100);
AT(coterie_engine_statistics, state_slots_used, 104);
AT(coterie_engine_statistics, checkpoints, 108);
AT(coterie_engine_statistics, checkpoint_hits, 112);
AT(coterie_engine_statistics, prefix_hit_rate, 120);
AT(coterie_engine_statistics, step_us_p50, 128);
AT(coterie_engine_statistics, step_us_p99, 136);
AT(coterie_engine_statistics, tokens_per_second, 144);
AT(coterie_engine_statistics, drafted_tokens, 152);
AT(coterie_engine_statistics, accepted_tokens, 160);
AT(coterie_engine_statistics, pending_bytes, 168);

AT(coterie_generation_options, flags, 4);
AT(coterie_generation_options, max_tokens, 8);
AT(coterie_generation_options, temperature, 16);
AT(coterie_generation_options, top_p, 20);
AT(coterie_generation_options, min_p, 24);
AT(coterie_generation_options, typical_p, 28);
AT(coterie_generation_options, top_k, 32);
AT(coterie_generation_options, repeat_penalty, 36);
AT(coterie_generation_options, penalty_tokens, 48);
AT(coterie_generation_options, top_logprobs, 52);
AT(coterie_generation_options, seed, 56);
AT(coterie_generation_options, stop, 64);
AT(coterie_generation_options, stop_count, 72);
AT(coterie_generation_options, bias, 80);
AT(coterie_generation_options, bias_count, 88);
AT(coterie_generation_options, json_schema, 96);
AT(coterie_generation_options, grammar, 104);
AT(coterie_generation_options, priority, 112);
AT(coterie_generation_options, time_limit_ms, 116);
AT(coterie_generation_options, tool_choice, 120);
AT(coterie_generation_options, draft_tokens, 128);

AT(coterie_event, kind, 4);
AT(coterie_event, token, 8);
AT(coterie_event, call, 12);
AT(coterie_event, text, 16);
AT(coterie_event, length, 24);
AT(coterie_event, id, 32);
AT(coterie_event, name, 40);
AT(coterie_event, logprob, 48);
AT(coterie_event, finish_reason, 52);
AT(coterie_event, top, 56);
AT(coterie_event, top_count, 64);
AT(coterie_event, done, 72);
AT(coterie_event, total, 80);

AT(coterie_generation_statistics, finish_reason, 4);
AT(coterie_generation_statistics, prompt_tokens, 8);
AT(coterie_generation_statistics, queue_us, 32);
AT(coterie_generation_statistics, preemptions, 56);
AT(coterie_generation_statistics, seed, 64);
AT(coterie_generation_statistics, computed_tokens, 72);
AT(coterie_generation_statistics, drafted_tokens, 80);
AT(coterie_generation_statistics, accepted_tokens, 88);

AT(coterie_input, text, 0);
AT(coterie_input, length, 8);
AT(coterie_input, tokens, 16);
AT(coterie_input, count, 24);

AT(coterie_reading_options, pooling, 4);
AT(coterie_reading_options, raw, 8);
AT(coterie_reading_options, dimensions, 12);
AT(coterie_reading_options, truncate, 16);
AT(coterie_reading_options, priority, 20);
AT(coterie_reading_options, time_limit_ms, 24);
AT(coterie_reading_options, progress, 32);
AT(coterie_reading_options, progress_user, 40);

/* Every INIT macro fits its struct. */
coterie_error an_error = COTERIE_ERROR_INIT;
coterie_model_options some_model_options = COTERIE_MODEL_OPTIONS_INIT;
coterie_model_info an_info = COTERIE_MODEL_INFO_INIT;
coterie_chat_options some_chat_options = COTERIE_CHAT_OPTIONS_INIT;
coterie_engine_options some_engine_options = COTERIE_ENGINE_OPTIONS_INIT;
coterie_engine_statistics some_engine_statistics = COTERIE_ENGINE_STATISTICS_INIT;
coterie_generation_options some_generation_options = COTERIE_GENERATION_OPTIONS_INIT;
coterie_event an_event = COTERIE_EVENT_INIT;
coterie_generation_statistics some_generation_statistics = COTERIE_GENERATION_STATISTICS_INIT;
coterie_reading_options some_reading_options = COTERIE_READING_OPTIONS_INIT;
coterie_plan_request a_plan_request = COTERIE_PLAN_REQUEST_INIT;
