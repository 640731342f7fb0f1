/* Continues a text with a model: cc complete.c -lcoterie && ./a.out MODEL.gguf "The capital of France is" */
#include <coterie/coterie.h>
#include <stdio.h>

int main(int argc, char** argv) {
    coterie_error error = COTERIE_ERROR_INIT;
    coterie_model* model = NULL;
    coterie_engine* engine = NULL;
    coterie_generation* generation = NULL;
    coterie_generation_options options = COTERIE_GENERATION_OPTIONS_INIT;
    coterie_event event = COTERIE_EVENT_INIT;
    options.max_tokens = 32;
    options.flags = COTERIE_GREEDY;
    if (argc == 3 && coterie_model_open(argv[1], NULL, &model, &error) == COTERIE_OK &&
        coterie_engine_create(model, NULL, &engine, &error) == COTERIE_OK &&
        coterie_complete(engine, argv[2], &options, &generation, &error) == COTERIE_OK)
        while (coterie_generation_next(generation, &event, -1, &error) == COTERIE_OK &&
               event.kind != COTERIE_EVENT_FINISHED)
            fwrite(event.text, 1, event.length, stdout);
    if (error.status != COTERIE_OK) fprintf(stderr, "%s\n", error.message);
    coterie_generation_destroy(generation);
    coterie_engine_destroy(engine);
    coterie_model_destroy(model);
    return error.status;
}
