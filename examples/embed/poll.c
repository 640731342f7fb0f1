/* An event loop that never blocks on the library and has no thread of its own: each line typed is continued,
 * up to four at once; "stop" cancels them. One poll() watches the input; while something runs it wakes every
 * 5 ms and looks for tokens. usage: embed_poll MODEL.gguf */
#include <coterie/coterie.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { places = 4 };
static coterie_generation* running[places];

static int count(void) {
    int n = 0;
    for (int i = 0; i < places; ++i) n += running[i] != NULL;
    return n;
}

/* Takes what has come, without waiting. */
static void look(void) {
    for (int i = 0; i < places; ++i) {
        coterie_event event = COTERIE_EVENT_INIT;
        coterie_error error = COTERIE_ERROR_INIT;
        while (running[i] && coterie_generation_next(running[i], &event, 0, &error) == COTERIE_OK &&
               event.kind != COTERIE_EVENT_NONE) {
            if (event.kind == COTERIE_EVENT_TOKEN) printf("%d: %s\n", i, event.text);
            if (event.kind != COTERIE_EVENT_FINISHED) continue;
            printf("%d: ended (%d)\n", i, event.finish_reason);
            coterie_generation_destroy(running[i]);
            running[i] = NULL;
        }
        if (error.status != COTERIE_OK) {
            printf("%d: %s\n", i, error.message);
            coterie_generation_destroy(running[i]);
            running[i] = NULL;
        }
    }
}

static void start(coterie_engine* engine, const char* line) {
    coterie_error error = COTERIE_ERROR_INIT;
    coterie_generation_options options = COTERIE_GENERATION_OPTIONS_INIT;
    int i = 0;
    options.max_tokens = 24;
    while (i < places && running[i]) ++i;
    if (i == places)
        puts("busy");
    else if (coterie_complete(engine, line, &options, &running[i], &error) != COTERIE_OK)
        puts(error.message);
}

int main(int argc, char** argv) {
    coterie_error error = COTERIE_ERROR_INIT;
    coterie_model* model = NULL;
    coterie_engine* engine = NULL;
    coterie_engine_options place = COTERIE_ENGINE_OPTIONS_INIT;
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    char line[1024];
    size_t length = 0;
    int open = 1;
    place.parallel = places;
    if (coterie_model_open(argc == 2 ? argv[1] : "", NULL, &model, &error) != COTERIE_OK ||
        coterie_engine_create(model, &place, &engine, &error) != COTERIE_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    while (open || count() > 0) {
        if (poll(&input, open ? 1 : 0, count() > 0 ? 5 : -1) > 0) {
            ssize_t n = read(STDIN_FILENO, line + length, 1);
            open = n > 0 && length + 2 < sizeof line;
            if (open && line[length++] == '\n') {
                line[length - 1] = 0;
                length = 0;
                if (strcmp(line, "stop") == 0)
                    for (int i = 0; i < places; ++i) coterie_generation_cancel(running[i]);
                else if (line[0])
                    start(engine, line);
            }
        }
        look();
    }
    coterie_engine_destroy(engine);
    coterie_model_destroy(model);
    return 0;
}
