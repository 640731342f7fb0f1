// Completes a text, and compares two by their embeddings, through the C++ wrapper.   usage: embed_cpp
// MODEL.gguf
#include <coterie/coterie.hpp>
#include <iostream>
#include <numeric>

int main(int argc, char** argv) try {
    if (argc != 2) throw std::runtime_error("usage: embed_cpp MODEL.gguf");
    coterie::Model model(argv[1]);
    std::cout << model.metadata("general.architecture") << ", " << model.info().layers << " layers\n";
    coterie_engine_options place = COTERIE_ENGINE_OPTIONS_INIT;
    place.parallel = 2;
    coterie::Engine engine(model, place);

    coterie_generation_options options = COTERIE_GENERATION_OPTIONS_INIT;
    options.max_tokens = 32;
    coterie::Generation answer = engine.complete("The capital of France is", options);
    for (const coterie_event& event : answer)  // one after the other, as they come
        if (event.kind == COTERIE_EVENT_TOKEN) std::cout.write(event.text, long(event.length)).flush();
    std::cout << "\n" << answer.statistics().generated_tokens << " tokens\n";

    const auto v = engine.embed({"a cat", "a kitten"});
    std::cout << "similarity " << std::inner_product(v[0].begin(), v[0].end(), v[1].begin(), 0.0f) << "\n";
} catch (const coterie::Error& error) {
    std::cerr << coterie_status_name(error.status()) << ": " << error.what() << "\n";
    return 1;
} catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
