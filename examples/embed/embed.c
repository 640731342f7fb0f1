/* Chats once through the C interface.   usage: embed_c MODEL.gguf "A question" */
#include <coterie/coterie.h>
#include <stdio.h>
#include <stdlib.h>

static int loading(void* user, const char* what, uint64_t done, uint64_t total) {
    (void)user;
    if (done == total) fprintf(stderr, "%s: done\n", what);
    return 0; /* anything else cancels */
}

int main(int argc, char** argv) {
    coterie_error error = COTERIE_ERROR_INIT;
    coterie_model* model = NULL;
    coterie_engine* engine = NULL;
    coterie_generation* answer = NULL;
    coterie_engine_options place = COTERIE_ENGINE_OPTIONS_INIT;
    coterie_generation_options options = COTERIE_GENERATION_OPTIONS_INIT;
    coterie_event event = COTERIE_EVENT_INIT;
    char messages[4096];
    if (argc != 3 ||
        snprintf(messages, sizeof messages, "[{\"role\": \"user\", \"content\": \"%s\"}]", argv[2]) >= 4096)
        return fprintf(stderr, "usage: %s MODEL.gguf \"A question without quotes\"\n", argv[0]), EXIT_FAILURE;
    place.progress = loading;
    options.max_tokens = 64;
    options.flags = COTERIE_GREEDY;
    if (coterie_model_open(argv[1], NULL, &model, &error) == COTERIE_OK &&
        coterie_engine_create(model, &place, &engine, &error) == COTERIE_OK &&
        coterie_chat(engine, messages, NULL, NULL, &options, &answer, &error) == COTERIE_OK)
        while (coterie_generation_next(answer, &event, -1, &error) == COTERIE_OK &&
               event.kind != COTERIE_EVENT_FINISHED)
            if (event.kind == COTERIE_EVENT_CONTENT) fwrite(event.text, 1, event.length, stdout);
    if (error.status != COTERIE_OK)
        fprintf(stderr, "%s: %s\n", coterie_status_name(error.status), error.message);
    coterie_generation_destroy(answer); /* each accepts NULL */
    coterie_engine_destroy(engine);
    coterie_model_destroy(model);
    puts("");
    return error.status == COTERIE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
