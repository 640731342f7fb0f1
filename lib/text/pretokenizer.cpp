// See pretokenizer.h. Patterns are put together from named parts, so that the differences between models are
// visible. White space is spelled out as Unicode's White_Space, because PCRE2's \s also takes in U+180E.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenizer.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <cstdint>

#include "base/failure.h"

namespace coterie::text {

namespace {

const std::string space =
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
const std::string lead = "[^\\r\\n\\p{L}\\p{N}]?";  // one blank or sign may stick to the word after it
const std::string contraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";

// White space at the end of a word's line; all of a run but the last, which belongs to the next word; the
// rest.
const std::string trailing_blanks = "[" + space + "]+(?![^" + space + "])";
const std::string blanks = "[" + space + "]*[\\r\\n]+|" + trailing_blanks + "|[" + space + "]+";

// Punctuation with an optional blank before it and newlines (or slashes) after it.
std::string signs(const std::string& letters, const std::string& after) {
    return " ?[^" + space + letters + "\\p{N}]+[" + after + "]*";
}

const std::string gpt2_words =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" + space + "\\p{L}\\p{N}]+|" + trailing_blanks;

std::string words_numbers_signs(const std::string& letters, const std::string& number) {
    return contraction + "|" + lead + "[" + letters + "]+|" + number + "|" + signs(letters, "\\r\\n") + "|" +
           blanks;
}

// Words that begin anew at a capital after a small letter. Title case, modifiers, marks and letters without
// case are both.
std::string cased_words(const std::string& ending) {
    const std::string upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]", lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
    return lead + upper + "*" + lower + "+" + ending + "|" + lead + upper + "+" + lower + "*" + ending;
}

std::vector<std::string> patterns(std::string_view name) {
    if (name == "qwen2") return {words_numbers_signs("\\p{L}", "\\p{N}")};
    if (name == "qwen35") return {words_numbers_signs("\\p{L}\\p{M}", "\\p{N}")};
    if (name == "llama-bpe" || name == "glm4") return {words_numbers_signs("\\p{L}", "\\p{N}{1,3}")};
    if (name == "gpt-2") return {gpt2_words + "|[" + space + "]+"};
    if (name == "smollm") return {"\\p{N}", gpt2_words + "|[" + space + "]+"};
    if (name == "gpt-4o")
        return {cased_words(contraction + "?") + "|\\p{N}{1,3}|" + signs("\\p{L}", "\\r\\n/") + "|" + blanks};
    if (name == "tekken") return {cased_words("") + "|\\p{N}|" + signs("\\p{L}", "\\r\\n/") + "|" + blanks};
    if (name == "deepseek-v3")
        return {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+",
                "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
                "?[\\p{P}\\p{S}]+[\\r\\n]*|" +
                    blanks};
    if (name == "default") return {"[\\p{P}$+<=>^~|]+", gpt2_words, "\\p{N}+", "[0-9][0-9][0-9]"};
    fail(Status::internal, "there is no pre-tokeniser named \"{}\"", name);
}

}  // namespace

// One compiled pattern. The text between matches is a piece too.
struct Pretokenizer::Pass {
    pcre2_code* code = nullptr;
    pcre2_match_context* context = nullptr;

    explicit Pass(const std::string& pattern) {
        int error = 0;
        PCRE2_SIZE offset = 0;
        code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                             PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
        if (!code)
            fail(Status::internal, "PCRE2 refused a pre-tokeniser pattern at character {} (error {}): {}",
                 offset, error, pattern);
        context = pcre2_match_context_create(nullptr);
        if (!context) {
            pcre2_code_free(code);
            fail(Status::out_of_memory, "there is no memory left for a pre-tokeniser");
        }
        // The patterns take time linear in the text, so its length is all that has to be bounded.
        pcre2_set_match_limit(context, UINT32_MAX);
        pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where that isn't possible, PCRE2 interprets
    }
    ~Pass() {
        pcre2_match_context_free(context);
        pcre2_code_free(code);
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    void split(std::string_view text, pcre2_match_data* match, std::vector<std::string_view>& pieces) const {
        const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
        const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(match);
        size_t done = 0;
        while (done < text.size()) {
            int found = pcre2_match(code, subject, text.size(), done, PCRE2_NO_UTF_CHECK, match, context);
            if (found == PCRE2_ERROR_JIT_STACKLIMIT)
                found = pcre2_match(code, subject, text.size(), done, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                                    match, context);
            if (found == PCRE2_ERROR_NOMATCH) break;
            if (found < 0)
                fail(Status::internal, "PCRE2 failed with error {} while it cut text into words", found);
            if (bounds[0] > done) pieces.push_back(text.substr(done, bounds[0] - done));
            if (bounds[1] <= bounds[0]) break;  // no pattern matches nothing; never loop if one did
            pieces.push_back(text.substr(bounds[0], bounds[1] - bounds[0]));
            done = bounds[1];
        }
        if (done < text.size()) pieces.push_back(text.substr(done));
    }
};

Pretokenizer::Pretokenizer(std::string_view name) {
    for (const std::string& pattern : patterns(name))
        passes_.push_back(std::make_shared<const Pass>(pattern));
}

void Pretokenizer::split(std::string_view text, std::vector<std::string_view>& pieces) const {
    if (text.empty()) return;
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
        pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
    if (!match) fail(Status::out_of_memory, "there is no memory left to cut text into words");
    if (passes_.size() == 1) return passes_[0]->split(text, match.get(), pieces);
    std::vector<std::string_view> before{text}, after;
    for (const auto& pass : passes_) {
        after.clear();
        for (const std::string_view piece : before) pass->split(piece, match.get(), after);
        before.swap(after);
    }
    pieces.insert(pieces.end(), before.begin(), before.end());
}

PretokenizerChoice choose_pretokenizer(std::string_view pre, std::string_view architecture) {
    struct Alias {
        std::string_view pre, name;
        bool ignore_merges = false, add_bos = false;
    };
    static constexpr Alias aliases[] = {
        {"default", "default"},
        {"gpt-2", "gpt-2"},
        {"phi-2", "gpt-2"},
        {"mpt", "gpt-2"},
        {"olmo", "gpt-2"},
        {"jais", "gpt-2"},
        {"trillion", "gpt-2"},
        {"granite-docling", "gpt-2"},
        {"gigachat", "gpt-2"},
        {"jina-es", "gpt-2"},
        {"jina-de", "gpt-2"},
        {"jina-v2-es", "gpt-2"},
        {"jina-v2-de", "gpt-2"},
        {"a.x-4.0", "gpt-2"},
        {"mellum", "gpt-2"},
        {"exaone4", "gpt-2"},
        {"smollm", "smollm"},
        {"starcoder", "smollm"},
        {"refact", "smollm"},
        {"command-r", "smollm"},
        {"codeshell", "smollm"},
        {"exaone", "smollm"},
        {"minerva-7b", "smollm"},
        {"qwen2", "qwen2"},
        {"deepseek-r1-qwen", "qwen2"},
        {"megrez", "qwen2"},
        {"stablelm2", "qwen2"},
        {"hunyuan", "qwen2"},
        {"kormo", "qwen2"},
        {"solar-open", "qwen2"},
        {"grok-2", "qwen2"},
        {"qwen35", "qwen35"},
        {"llama-bpe", "llama-bpe", true, true},
        {"llama3", "llama-bpe", true, true},
        {"llama-v3", "llama-bpe", true, true},
        {"falcon3", "llama-bpe", true, true},
        {"falcon-h1", "llama-bpe", true, true},
        {"pixtral", "llama-bpe", true, true},
        {"midm-2.0", "llama-bpe", true, true},
        {"lfm2", "llama-bpe", true, true},
        {"dbrx", "llama-bpe"},
        {"smaug-bpe", "llama-bpe"},
        {"glm4", "glm4"},
        {"chatglm-bpe", "glm4"},
        {"gpt-4o", "gpt-4o"},
        {"llama4", "gpt-4o"},
        {"kanana2", "gpt-4o"},
        {"minimax-m2", "gpt-4o"},
        {"tekken", "tekken", true, true},
        {"deepseek-v3", "deepseek-v3"},
        {"hunyuan-dense", "deepseek-v3"},
        {"joyai-llm", "deepseek-v3"},
    };
    // What an architecture's files mean when they say nothing, or something that can't be right.
    struct Family {
        std::string_view architecture, pre;
    };
    static constexpr Family families[] = {
        {"qwen2", "qwen2"},     {"qwen2moe", "qwen2"},   {"qwen3", "qwen2"},     {"qwen3moe", "qwen2"},
        {"qwen3next", "qwen2"}, {"qwen2vl", "qwen2"},    {"qwen3vl", "qwen2"},   {"qwen3vlmoe", "qwen2"},
        {"qwen35", "qwen35"},   {"qwen35moe", "qwen35"}, {"qwen4exp", "qwen35"}, {"gpt-oss", "gpt-4o"},
        {"gptoss", "gpt-4o"},   {"llama4", "gpt-4o"},    {"glm4", "glm4"},       {"glm4moe", "glm4"},
        {"gpt2", "gpt-2"},
    };
    const auto alias_of = [&](std::string_view name) {
        const auto found = std::find_if(std::begin(aliases), std::end(aliases),
                                        [&](const Alias& a) { return a.pre == name; });
        return found == std::end(aliases) ? nullptr : found;
    };
    const auto family = std::find_if(std::begin(families), std::end(families),
                                     [&](const Family& f) { return f.architecture == architecture; });
    const Alias* alias = alias_of(pre);
    std::string warning;
    if (family != std::end(families)) {
        // Every file of Qwen 3.5 and later was trained with qwen35; its predecessor's name is a converter's
        // mistake.
        const bool wrong = family->pre == "qwen35" && pre != "qwen35";
        if (wrong || !alias || pre == "default") {
            alias = alias_of(family->pre);
            const std::string says =
                pre.empty() ? "no pre-tokeniser" : fmt::format("the pre-tokeniser \"{}\"", pre);
            warning = fmt::format("the file names {}, but \"{}\" is used, as for every {} model", says,
                                  family->pre, architecture);
        }
    }
    if (!alias) {
        alias = alias_of("default");
        warning =
            pre.empty()
                ? std::string(
                      "the file names no pre-tokeniser; a generic one is used, and answers may be worse")
                : fmt::format(
                      "the file's pre-tokeniser \"{}\" is not known; a generic one is used, and answers may "
                      "be "
                      "worse",
                      pre);
    }
    return {std::string(alias->name), alias->ignore_merges, alias->add_bos, std::move(warning)};
}

}  // namespace coterie::text
